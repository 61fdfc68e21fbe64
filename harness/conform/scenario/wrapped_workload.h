// A workload that forwards every call to another one. Derived classes override the calls that they change.
#pragma once

#include <memory>
#include <string>

#include "workloads/api/workload.h"

namespace dpbench {

class WrappedWorkload : public Workload {
 public:
  // `inner` must outlive this object.
  explicit WrappedWorkload(const Workload& inner) : inner_(inner) {}

  int64_t samples() const override { return inner_.samples(); }
  std::shared_ptr<Model> model(uint64_t seed) const override { return inner_.model(seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return inner_.loss(output, target);
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    return inner_.split_loss(output, target, split);
  }
  at::Tensor joined_output(const at::Tensor& output, const ModelSplit& split) const override {
    return inner_.joined_output(output, split);
  }
  bool sum_loss() const override { return inner_.sum_loss(); }
  bool is_smooth() const override { return inner_.is_smooth(); }
  at::Tensor predicted(const at::Tensor& output) const override { return inner_.predicted(output); }
  int64_t loss_terms(const Batch& batch) const override { return inner_.loss_terms(batch); }
  OptimizerSpec optimizer() const override { return inner_.optimizer(); }
  Batch batch(const at::Tensor& ids) const override { return inner_.batch(ids); }
  void prepare(const at::Tensor& ids) const override { inner_.prepare(ids); }
  int64_t tokens_per_sample() const override { return inner_.tokens_per_sample(); }
  double flop_per_sample() const override { return inner_.flop_per_sample(); }
  std::string continued(const Forward& forward, int64_t tokens, uint64_t seed) const override {
    return inner_.continued(forward, tokens, seed);
  }
  int64_t test_samples() const override { return inner_.test_samples(); }
  Batch test_batch(const at::Tensor& ids) const override { return inner_.test_batch(ids); }

 protected:
  const Workload& inner_;
};

}  // namespace dpbench
