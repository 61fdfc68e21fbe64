// The workload gpt: a decoder-only transformer that predicts the next token of a text.
#pragma once

#include <memory>
#include <string>

#include "workloads/api/workload.h"
#include "workloads/gpt/shape.h"
#include "workloads/gpt/tokens.h"

namespace dpbench::gpt {

// Sample i is row i of the data: tokens i seq .. (i + 1) seq - 1, with the following token of each as its target.
class Gpt : public Workload {
 public:
  // data: see Tokens
  Gpt(const Shape& shape, const std::string& data);

  int64_t samples() const override { return rows_ - test_samples(); }
  int64_t test_samples() const override;
  std::shared_ptr<Model> model(uint64_t seed) const override;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override;
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override;
  at::Tensor joined_output(const at::Tensor& output, const ModelSplit& split) const override;
  at::Tensor predicted(const at::Tensor& output) const override;
  int64_t loss_terms(const Batch& batch) const override;
  OptimizerSpec optimizer() const override;
  int64_t tokens_per_sample() const override { return shape_.seq; }
  double flop_per_sample() const override { return shape_.flop_per_row(); }
  // The text begins with the first half of the first test row. Unless the data are bytes, tokens are written as
  // numbers.
  std::string continued(const Forward& forward, int64_t tokens, uint64_t seed) const override;
  Batch batch(const at::Tensor& ids) const override { return rows_at(ids, ids); }
  Batch test_batch(const at::Tensor& ids) const override { return rows_at(ids, ids + samples()); }

 protected:
  // Returns the columns of the logits that a rank has under tensor parallelism.
  Piece columns(const TensorSplit& split) const;
  // Returns the targets of a rank's tokens under context parallelism.
  static at::Tensor own_targets(const at::Tensor& target, const ModelSplit& split);

 private:
  at::Tensor logits(const at::Tensor& output) const;
  at::Tensor balance_loss(const at::Tensor& output, const at::Tensor& target) const;
  Batch rows_at(const at::Tensor& ids, const at::Tensor& rows) const;
  // Ends each row after a number of tokens that depends on the row: one at least, and half of the row on average.
  void pad(const at::Tensor& rows, at::Tensor& input, at::Tensor& target) const;

  Shape shape_;
  Tokens tokens_;
  int64_t rows_ = 0;
};

}  // namespace dpbench::gpt
