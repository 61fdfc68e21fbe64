// A workload wrapper that modifies the inner workload's models after construction (e.g. different buffers on each rank)
// or scales its loss.
#pragma once

#include <functional>
#include <memory>

#include "workloads/api/workload.h"

namespace dpbench {

class AlteredWorkload : public Workload {
 public:
  AlteredWorkload(const Workload& inner, std::function<void(Model&)> alter) : inner_(inner), alter_(std::move(alter)) {}
  AlteredWorkload(const Workload& inner, double factor) : inner_(inner), alter_([](Model&) {}), factor_(factor) {}

  int64_t samples() const override { return inner_.samples(); }
  std::shared_ptr<Model> model(uint64_t seed) const override {
    auto model = inner_.model(seed);
    alter_(*model);
    return model;
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return factor_ == 1 ? inner_.loss(output, target) : inner_.loss(output, target) * factor_;
  }
  bool sum_loss() const override { return inner_.sum_loss(); }
  int64_t loss_terms(const Batch& batch) const override { return inner_.loss_terms(batch); }
  OptimizerSpec optimizer() const override { return inner_.optimizer(); }
  Batch batch(const at::Tensor& ids) const override { return inner_.batch(ids); }
  void prepare(const at::Tensor& ids) const override { inner_.prepare(ids); }
  int64_t test_samples() const override { return inner_.test_samples(); }
  Batch test_batch(const at::Tensor& ids) const override { return inner_.test_batch(ids); }

 private:
  const Workload& inner_;
  std::function<void(Model&)> alter_;
  double factor_ = 1;
};

}  // namespace dpbench
