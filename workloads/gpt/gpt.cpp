// The workload gpt: a decoder-only transformer that predicts the next token of a text.
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "workloads/api/workload.h"
#include "workloads/base/error.h"
#include "workloads/base/hash.h"
#include "workloads/gpt/model.h"
#include "workloads/gpt/shape.h"
#include "workloads/gpt/tokens.h"
#include "workloads/layers/loss.h"

namespace dpbench::gpt {
namespace {

constexpr const char* default_model = "small";
constexpr int64_t no_target = -100;  // cross_entropy() ignores this label
constexpr int64_t test_part = 10;    // the last tenth of the rows is kept for evaluation

// Sample i is row i of the data: tokens i seq .. (i + 1) seq - 1, with the following token of each as its target.
class Gpt : public Workload {
 public:
  explicit Gpt(const WorkloadOptions& options)
      : shape_(parse_shape(options.model.empty() ? default_model : options.model)),
        tokens_(options.data_dir, shape_.vocab) {
    if (options.scale != 1) throw UsageError("--scale does not apply to gpt: use --model");
    rows_ = (tokens_.count() - 1) / shape_.seq;
    if (rows_ < test_part)
      throw UsageError("--model seq=" + std::to_string(shape_.seq) + ": the data has " +
                       std::to_string(tokens_.count()) + " tokens, " + std::to_string(test_part * shape_.seq + 1) +
                       " are needed");
  }

  int64_t samples() const override { return rows_ - test_samples(); }
  int64_t test_samples() const override { return rows_ / test_part; }
  std::shared_ptr<Model> model(uint64_t seed) const override { return make_model(shape_, seed); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return cross_entropy(output.flatten(0, 1), target.flatten());
  }
  int64_t loss_terms(const Batch& batch) const override {
    return shape_.padding ? batch.target.ne(no_target).sum().item<int64_t>() : batch.target.numel();
  }
  OptimizerSpec optimizer() const override {
    return {.kind = shape_.optimizer == Update::adamw ? OptimizerSpec::Kind::adam : OptimizerSpec::Kind::sgd,
            .learning_rate = shape_.learning_rate};
  }
  Batch batch(const at::Tensor& ids) const override { return rows_at(ids, ids); }
  Batch test_batch(const at::Tensor& ids) const override { return rows_at(ids, ids + samples()); }

 private:
  Batch rows_at(const at::Tensor& ids, const at::Tensor& rows) const {
    const at::Tensor positions = rows.unsqueeze(1) * shape_.seq + at::arange(shape_.seq + 1);
    const at::Tensor tokens = tokens_.at(positions);
    // contiguous() would not copy a single row, so both would share memory.
    at::Tensor input = tokens.narrow(1, 0, shape_.seq).clone(at::MemoryFormat::Contiguous),
               target = tokens.narrow(1, 1, shape_.seq).clone(at::MemoryFormat::Contiguous);
    if (shape_.padding) pad(rows, input, target);
    return {input, target, ids};
  }

  // Ends each row after a number of tokens that depends on the row: one at least, and half of the row on average.
  void pad(const at::Tensor& rows, at::Tensor& input, at::Tensor& target) const {
    const at::Tensor dense = rows.contiguous();
    for (int64_t i = 0; i < dense.numel(); ++i) {
      const auto drawn = mix64(static_cast<uint64_t>(dense.const_data_ptr<int64_t>()[i]));
      const auto length = 1 + static_cast<int64_t>(drawn % static_cast<uint64_t>(shape_.seq));
      if (length == shape_.seq) continue;
      input[i].narrow(0, length, shape_.seq - length).zero_();
      target[i].narrow(0, length, shape_.seq - length).fill_(no_target);
    }
  }

  Shape shape_;
  Tokens tokens_;
  int64_t rows_ = 0;
};

const RegisterWorkload registered{
    {.name = "gpt",
     .summary = "decoder-only transformer, shaped as GPT-2 or Llama, next token of a text",
     .scaling = Scaling::weak,
     .batch = 4,
     .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> { return std::make_unique<Gpt>(options); },
     .recipe = {.epochs = 10},
     .models = {shape_names(), size_names(), "tiny"}}};

}  // namespace
}  // namespace dpbench::gpt
