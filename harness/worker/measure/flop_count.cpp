#include "harness/worker/measure/flop_count.h"

#include <atomic>
#include <memory>
#include <string_view>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

std::atomic<int64_t> flop_so_far{0};
thread_local int inside = 0;  // depth of nested counted operations; only the outermost is counted

// Returns the floating-point operations of the matrix product a[.., n, k] times b[.., k, m].
int64_t product(const at::Tensor& a, const at::Tensor& b) { return 2 * a.numel() * b.size(-1); }

int64_t positions(const at::Tensor& output) { return output.numel() / output.size(1); }

// Returns the floating-point operations of a convolution's backward pass. For each requested gradient, each weight
// takes part in one multiplication and one addition per output position.
int64_t convolution_backward(Values in) {
  const auto mask = in[10].toBoolList();
  const int gradients = static_cast<int>(mask.get(0)) + static_cast<int>(mask.get(1));
  return 2 * positions(in[0].toTensor()) * in[2].toTensor().numel() * gradients;
}

struct Operation {
  std::string_view name;
  int64_t (*flop)(Values in);  // computes the operation count from the inputs
  // True if flop() counts per output position. The number of positions is known only when the operation ends.
  bool per_position = false;
};
constexpr Operation operations[] = {
    {"aten::mm", [](Values in) { return product(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::bmm", [](Values in) { return product(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::addmm", [](Values in) { return product(in[1].toTensor(), in[2].toTensor()); }},
    {"aten::baddbmm", [](Values in) { return product(in[1].toTensor(), in[2].toTensor()); }},
    {"mkldnn::_linear_pointwise", [](Values in) { return 2 * in[0].toTensor().numel() * in[1].toTensor().size(0); }},
    {"aten::convolution", [](Values in) { return 2 * in[1].toTensor().numel(); }, true},
    {"aten::convolution_backward", convolution_backward},
};

struct CountedCall : at::ObserverContext {
  explicit CountedCall(const Operation& of, int64_t count) : operation(of), flop(count) {}
  const Operation& operation;
  int64_t flop;
};

std::unique_ptr<at::ObserverContext> begin_counting(const at::RecordFunction& function) {
  for (const Operation& one : operations)
    if (one.name == function.name()) {
      ++inside;
      return std::make_unique<CountedCall>(one, one.flop(function.inputs()));
    }
  return nullptr;
}

void end_counting(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!context || --inside > 0) return;
  const auto& call = static_cast<const CountedCall&>(*context);
  flop_so_far += call.operation.per_position ? call.flop * positions(function.outputs().at(0).toTensor()) : call.flop;
}

}  // namespace

FlopCount::FlopCount() {
  flop_so_far = 0;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin_counting, end_counting)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

FlopCount::~FlopCount() { at::removeCallback(handle_); }

int64_t FlopCount::flop() const { return flop_so_far; }

void StepFlop::begin() {
  before_ = count_.flop();
  replayed_ = false;
}

void StepFlop::end(std::span<const Batch> micro) {
  Shape shape;
  for (const Batch& batch : micro) {
    shape.push_back(batch.rows());
    if (batch.input.defined()) shape.insert(shape.end(), batch.input.sizes().begin(), batch.input.sizes().end());
  }
  const int64_t counted = count_.flop() - before_;
  if (!replayed_ && counted > 0)
    // emplace() keeps the first count of each shape, because later steps may replay a part, which is not counted.
    eager_.emplace(shape, counted);
  const auto known = eager_.find(shape);
  steps_.push_back(known == eager_.end() ? std::nullopt : std::optional(known->second));
}

std::optional<int64_t> StepFlop::mean_of_last(int64_t steps) const {
  int64_t sum = 0;
  for (auto step = steps_.end() - steps; step != steps_.end(); ++step) {
    if (!*step) return std::nullopt;
    sum += **step;
  }
  return sum > 0 ? std::optional((sum + steps / 2) / steps) : std::nullopt;
}

}  // namespace dpbench
