// The workload gpt: a decoder-only transformer that predicts the next token of a text.
#pragma once

#include <memory>
#include <string>

#include "workloads/api/workload.h"
#include "workloads/gpt/shape.h"
#include "workloads/gpt/tokens.h"

namespace dpbench::gpt {

// The data are cut into rows of `seq` tokens. Sample i is row i: tokens i * seq to (i + 1) * seq - 1. The target of
// each token is the token after it.
class Gpt : public Workload {
 public:
  // data: path of the file with tokens; empty: the built-in text
  Gpt(const Shape& shape, const std::string& data);

  int64_t samples() const override { return rows_ - test_samples(); }
  int64_t test_samples() const override;
  std::shared_ptr<Model> model(uint64_t seed) const override;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override;
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override;
  at::Tensor joined_output(const at::Tensor& output, const ModelSplit& split) const override;
  at::Tensor predicted(const at::Tensor& output) const override;
  int64_t loss_terms(const Batch& batch) const override;
  bool is_smooth() const override { return shape_.experts == 0 && !shape_.exact; }
  OptimizerSpec optimizer() const override;
  int64_t tokens_per_sample() const override { return shape_.seq; }
  double flop_per_sample() const override { return shape_.flop_per_row(); }
  // Continues the first half of the first test sample. Returns characters if the tokens are bytes, else numbers.
  std::string continued(const Forward& forward, int64_t tokens, uint64_t seed) const override;
  Batch batch(const at::Tensor& ids) const override { return rows_at(ids, ids); }
  Batch test_batch(const at::Tensor& ids) const override { return rows_at(ids, ids + samples()); }

 protected:
  // Returns which columns of the logits (entries of the vocabulary) this rank has under tensor parallelism.
  Piece columns(const TensorSplit& split) const;
  // Returns the targets of those tokens that this rank has under context parallelism.
  static at::Tensor own_targets(const at::Tensor& target, const ModelSplit& split);

 private:
  at::Tensor logits(const at::Tensor& output) const;
  at::Tensor balance_loss(const at::Tensor& output, const at::Tensor& target) const;
  Batch rows_at(const at::Tensor& ids, const at::Tensor& rows) const;
  // Replaces the end of each sample by padding. Its start depends only on the sample's row in the data: after at least
  // one token, and on average after half of them.
  void pad(const at::Tensor& rows, at::Tensor& input, at::Tensor& target) const;

  Shape shape_;
  Tokens tokens_;
  int64_t rows_ = 0;
};

}  // namespace dpbench::gpt
