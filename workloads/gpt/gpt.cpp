#include "workloads/gpt/gpt.h"

#include <algorithm>
#include <sstream>

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/base/hash.h"
#include "workloads/gpt/model.h"
#include "workloads/gpt/plan.h"
#include "workloads/layers/init.h"
#include "workloads/layers/loss.h"

namespace dpbench::gpt {
namespace {

constexpr const char* default_model = "small";
constexpr int64_t test_part = 10;    // one in ten samples, the last tenth, is kept for evaluation
constexpr double temperature = 0.8;  // sampling temperature; below 1 favors likely tokens

// Returns tokens as text. Bytes become characters, or ? if they cannot be printed; other tokens become numbers.
std::string as_text(const at::Tensor& tokens, bool are_bytes) {
  std::ostringstream text;
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    const auto token = tokens[i].item<int64_t>();
    const bool printable = (token >= ' ' && token <= '~') || token == '\n';
    if (are_bytes)
      text << (printable ? static_cast<char>(token) : '?');
    else
      text << (i > 0 ? " " : "") << token;
  }
  return text.str();
}

}  // namespace

Gpt::Gpt(const Shape& shape, const std::string& data) : shape_(shape), tokens_(data, shape.vocab) {
  rows_ = (tokens_.count() - 1) / shape_.seq;
  if (rows_ < test_part)
    throw UsageError("--model seq=" + std::to_string(shape_.seq) + ": the data has " + std::to_string(tokens_.count()) +
                     " tokens, " + std::to_string(test_part * shape_.seq + 1) + " are needed");
}

int64_t Gpt::test_samples() const { return rows_ / test_part; }

std::shared_ptr<Model> Gpt::model(uint64_t seed) const { return make_model(shape_, seed); }

at::Tensor Gpt::loss(const at::Tensor& output, const at::Tensor& target) const {
  const at::Tensor loss = cross_entropy(logits(output).flatten(0, 1), target.flatten());
  return shape_.experts > 0 ? loss + balance_loss(output, target) : loss;
}

at::Tensor Gpt::logits(const at::Tensor& output) const {
  return shape_.experts > 0 ? output.narrow(-1, 0, shape_.vocab) : output;
}

// Returns the balance loss of the experts: the mean over all tokens that have a target, times the model's factor for
// this loss.
at::Tensor Gpt::balance_loss(const at::Tensor& output, const at::Tensor& target) const {
  const at::Tensor counted = target.ne(no_target).to(output.scalar_type());
  return (output.select(-1, shape_.vocab) * counted).sum() / counted.sum() * shape_.balance;
}

at::Tensor Gpt::predicted(const at::Tensor& output) const { return logits(output).argmax(-1); }

Piece Gpt::columns(const TensorSplit& split) const { return own_piece(shape_.vocab, split); }

at::Tensor Gpt::own_targets(const at::Tensor& target, const ModelSplit& split) {
  return split.sequence ? pieces_of(target, 1, split.sequence->tokens()) : target;
}

at::Tensor Gpt::split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const {
  const at::Tensor labels = own_targets(target, split);
  const at::Tensor sum = split.tensor ? split_cross_entropy(output, labels, columns(*split.tensor), *split.tensor).sum()
                                      : summed_cross_entropy(output.flatten(0, 1), labels.flatten());
  const at::Tensor part = sum / target.ne(no_target).sum().to(sum.scalar_type());
  return split.sequence ? split.sequence->total(part) : part;
}

at::Tensor Gpt::joined_output(const at::Tensor& output, const ModelSplit& split) const {
  const at::Tensor whole =
      split.tensor ? split.tensor->join(output, 2, even_pieces(shape_.vocab, split.tensor->ranks())) : output;
  return split.sequence ? split.sequence->join(whole, 1) : whole;
}

int64_t Gpt::loss_terms(const Batch& batch) const {
  return shape_.padding ? batch.target.ne(no_target).sum().item<int64_t>() : batch.target.numel();
}

OptimizerSpec Gpt::optimizer() const {
  const bool adamw = shape_.optimizer == Update::adamw;
  return {.kind = adamw ? OptimizerSpec::Kind::adam : OptimizerSpec::Kind::sgd,
          .learning_rate = shape_.learning_rate,
          .beta2 = 0.95,
          .weight_decay = adamw ? 0.1 : 0,
          .momentum = shape_.optimizer == Update::momentum ? 0.9 : 0,
          .warmup_steps = shape_.warmup,
          .decay_steps = shape_.decay,
          .final_fraction = 0.1};
}

std::string Gpt::continued(const Forward& forward, int64_t tokens, uint64_t seed) const {
  const auto generator = own_generator(seed);
  at::Tensor text = tokens_.at(samples() * shape_.seq + at::arange((shape_.seq + 1) / 2)).unsqueeze(0);
  for (int64_t i = 0; i < tokens; ++i) {
    const at::Tensor seen = text.slice(1, std::max<int64_t>(0, text.size(1) - shape_.seq)).contiguous();
    const at::Tensor output = forward({seen, {}, at::zeros({1}, at::kLong)}).cpu();
    const at::Tensor last = logits(output).select(1, -1).to(at::kDouble);
    const at::Tensor next = at::multinomial((last / temperature).softmax(-1), 1, /*replacement=*/false, generator);
    text = at::cat({text, next}, 1);
  }
  return as_text(text[0], tokens_.are_bytes());
}

Batch Gpt::rows_at(const at::Tensor& ids, const at::Tensor& rows) const {
  const at::Tensor positions = rows.unsqueeze(1) * shape_.seq + at::arange(shape_.seq + 1);
  const at::Tensor tokens = tokens_.at(positions);
  // clone() always copies. contiguous() would not copy if there is only one row, and input and target would then share
  // memory.
  at::Tensor input = tokens.narrow(1, 0, shape_.seq).clone(at::MemoryFormat::Contiguous),
             target = tokens.narrow(1, 1, shape_.seq).clone(at::MemoryFormat::Contiguous);
  if (shape_.padding) pad(rows, input, target);
  return {input, target, ids};
}

void Gpt::pad(const at::Tensor& rows, at::Tensor& input, at::Tensor& target) const {
  const at::Tensor dense = rows.contiguous();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const auto drawn = mix64(static_cast<uint64_t>(dense.const_data_ptr<int64_t>()[i]));
    const auto length = 1 + static_cast<int64_t>(drawn % static_cast<uint64_t>(shape_.seq));
    if (length == shape_.seq) continue;
    input[i].narrow(0, length, shape_.seq - length).zero_();
    target[i].narrow(0, length, shape_.seq - length).fill_(no_target);
  }
}

namespace {

const RegisterWorkload registered{
    {.name = "gpt",
     .summary = "decoder-only transformer, shaped as GPT-2 or Llama, next token of a text",
     .scaling = Scaling::weak,
     .batch = 4,
     .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
       if (options.scale != 1) throw UsageError("--scale does not apply to gpt: use --model");
       return std::make_unique<Gpt>(parse_shape(options.model.empty() ? default_model : options.model),
                                    options.data_dir);
     },
     .recipe = {.epochs = 10},
     .models = {shape_names(), size_names(), "tiny", drawn_sizes()},
     .experts = true}};

// Registers a probe (test model of the checks) with another shape of gpt: by default, `dpbench check` runs the workload
// gpt only in the shape of GPT-2.
WorkloadInfo probe_info(const std::string& name, const std::string& summary, const std::string& shape,
                        bool experts = false) {
  return {.name = name,
          .summary = summary,
          .scaling = Scaling::weak,
          .batch = 4,
          .make = [shape](const WorkloadOptions&) -> std::unique_ptr<Workload> {
            return std::make_unique<Gpt>(parse_shape(shape), "");
          },
          .probe = true,
          .experts = experts};
}

const RegisterWorkload llama{probe_info("probe-llama",
                                        "gpt as Llama: rotary positions, RMSNorm, SwiGLU, shared heads, padding",
                                        "tiny-llama,optimizer=momentum")};
const RegisterWorkload experts{probe_info("probe-experts", "gpt with experts: a router, a balance loss, padding",
                                          "tiny-experts,optimizer=momentum", /*experts=*/true)};

}  // namespace
}  // namespace dpbench::gpt
