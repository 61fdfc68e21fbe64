#include "strategies/parts/flop_count.h"

#include <atomic>
#include <memory>
#include <string_view>

#include <ATen/ATen.h>

namespace dpbench {
namespace flop_counting {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

std::atomic<int64_t> of_all_threads{0};
thread_local int64_t of_this_thread = 0;
// Nesting depth of this thread's counting callbacks. An operation may call another counted operation, and each
// FlopCount object makes a callback of its own. Only the outermost callback counts, so nothing is counted twice.
thread_local int inside = 0;

// Returns the floating-point operations of the matrix product a[.., n, k] times b[.., k, m].
int64_t product(const at::Tensor& a, const at::Tensor& b) { return 2 * a.numel() * b.size(-1); }

int64_t positions(const at::Tensor& output) { return output.numel() / output.size(1); }

// Returns the floating-point operations of a convolution's backward pass. It computes up to two gradients (input and
// weight), and each takes one multiplication and one addition per weight and output position.
int64_t convolution_backward(Values in) {
  const auto mask = in[10].toBoolList();
  const int gradients = static_cast<int>(mask.get(0)) + static_cast<int>(mask.get(1));
  return 2 * positions(in[0].toTensor()) * in[2].toTensor().numel() * gradients;
}

// Returns the floating-point operations of the two products of attention: queries times keys, and scores times values.
// Scores that a causal mask hides count too.
int64_t attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const int64_t scores = query.numel() / query.size(-1) * key.size(-2);
  return 2 * scores * (query.size(-1) + value.size(-1));
}

int64_t attention_forward(Values in) { return attention(in[0].toTensor(), in[1].toTensor(), in[2].toTensor()); }

// Attention's forward pass has two matrix products: queries times keys gives the scores, and scores times values the
// output. The backward kernels compute the first product again, and each product then needs two more for its gradients.
// In total: the first product three times, the second twice.
int64_t attention_backward(Values in) {
  const at::Tensor &query = in[1].toTensor(), &key = in[2].toTensor();
  return 2 * attention(query, key, in[3].toTensor()) + 2 * query.numel() * key.size(-2);
}

struct Operation {
  std::string_view name;
  int64_t (*flop)(Values in);  // returns the operation's number of floating-point operations, from its inputs
  // True if flop() returns the floating-point operations of a single output position. The total is known only when the
  // operation has ended, because it depends on the size of the output.
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
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention_forward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
    {"aten::_scaled_dot_product_flash_attention", attention_forward},
    {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_efficient_attention", attention_forward},
    {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_cudnn_attention", attention_forward},
    {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
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
  const int64_t flop =
      call.operation.per_position ? call.flop * positions(function.outputs().at(0).toTensor()) : call.flop;
  of_all_threads += flop;
  of_this_thread += flop;
}

}  // namespace
}  // namespace flop_counting

FlopCount::FlopCount(Of of) : of_(of), before_(so_far()) {
  auto callback = at::RecordFunctionCallback(flop_counting::begin_counting, flop_counting::end_counting)
                      .needsInputs(true)
                      .needsOutputs(true)
                      .scopes({at::RecordScope::FUNCTION});
  handle_ = of_ == Of::all_threads ? at::addGlobalCallback(callback) : at::addThreadLocalCallback(callback);
}

FlopCount::~FlopCount() { at::removeCallback(handle_); }

int64_t FlopCount::flop() const { return so_far() - before_; }

int64_t FlopCount::so_far() const {
  return of_ == Of::all_threads ? flop_counting::of_all_threads.load() : flop_counting::of_this_thread;
}

}  // namespace dpbench
