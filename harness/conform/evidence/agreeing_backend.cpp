#include "harness/conform/evidence/agreeing_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "strategies/api/backend.h"

namespace dpbench {
namespace {

constexpr int64_t fingerprint_bytes = 192;

// Returns a description of a collective call, which must be equal on every rank. A scatter is described by its outputs
// because only its root has inputs. An alltoall is described without sizes because they may differ between ranks.
std::string shape_of_call(CollectiveOp op, ReduceKind reduction, const ForwardingBackend::Tensors& input,
                          const ForwardingBackend::Tensors& output, int64_t root) {
  std::string text = name_of(op);
  if (reduction != ReduceKind::UNUSED) text += std::string(" (") + reduction_name(reduction) + ")";
  if (op == CollectiveOp::alltoall) return text;
  const char* separator = " of ";
  for (const at::Tensor& tensor : op == CollectiveOp::scatter ? output : input) {
    text += separator + std::to_string(tensor.numel()) + " " + c10::toString(tensor.scalar_type());
    separator = ", ";
  }
  return root < 0 ? text : text + " with root " + std::to_string(root);
}

// Returns the description of a call, shortened to the fixed size in which ranks exchange descriptions. A shortened text
// (e.g. for all parameters of a model in one call) ends with the hash of the whole text.
std::string fitting(const std::string& text) {
  constexpr size_t limit = fingerprint_bytes - 1;
  if (text.size() <= limit) return text;
  char hash[24];
  const int length = std::snprintf(hash, sizeof hash, ".. #%016zx", std::hash<std::string>()(text));
  return text.substr(0, limit - static_cast<size_t>(length)) + hash;
}

}  // namespace

AgreeingBackend::AgreeingBackend(c10::intrusive_ptr<c10d::Backend> inner, at::Device device, std::string run,
                                 std::vector<int> names)
    : ForwardingBackend(std::move(inner)), device_(device), run_(std::move(run)), names_(std::move(names)) {
  if (names_.empty())
    for (int rank = 0; rank < getSize(); ++rank) names_.push_back(rank);
}

void AgreeingBackend::begin_step(int64_t step) {
  step_ = step;
  call_ = 0;
}

void AgreeingBackend::finish(const std::string& how) {
  if (diverged_) return;
  diverged_ = true;
  try {
    exchange(run_ + ": " + how);
  } catch (const std::exception&) {
    // The error is ignored: this rank cannot announce that it makes no more calls if the other ranks have already left.
  }
}

ForwardingBackend::WorkPtr AgreeingBackend::around(Call call) {
  if (is_point_to_point(call.op)) return call.run();
  const std::string when = step_ < 0 ? "set-up" : "step " + std::to_string(step_);
  agree(run_ + ": " + when + ", call " + std::to_string(call_++) + ": " +
        shape_of_call(call.op, call.reduction, call.input, call.output, call.root));
  return call.run();
}

void AgreeingBackend::agree(const std::string& mine) {
  if (diverged_) throw std::runtime_error("the ranks called different collectives earlier");
  // If the comparison fails (exchange() throws), the ranks count as having called different collectives.
  diverged_ = true;
  const auto all = exchange(mine);
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& text) { return text != all[0]; });
  diverged_ = other != all.end();
  if (diverged_)
    throw std::runtime_error(
        "the ranks call different collectives: rank " + std::to_string(names_[0]) + " \"" + all[0] + "\", rank " +
        std::to_string(names_.at(static_cast<size_t>(other - all.begin()))) + " \"" + *other + "\"");
}

std::vector<std::string> AgreeingBackend::exchange(const std::string& mine) {
  const at::NoGradGuard no_grad;
  at::Tensor sent = at::zeros({fingerprint_bytes}, at::kByte);
  const std::string text = fitting(mine);
  std::memcpy(sent.data_ptr(), text.data(), text.size());
  Tensors input = {sent.to(device_)};
  Lists output(1);
  for (int rank = 0; rank < getSize(); ++rank) output[0].push_back(at::empty_like(input[0]));
  inner_->allgather(output, input, c10d::AllgatherOptions())->wait();
  std::vector<std::string> texts;
  for (const at::Tensor& received : output[0]) {
    const at::Tensor here = received.to(at::kCPU);
    const auto* said = static_cast<const char*>(here.data_ptr());
    texts.emplace_back(said, ::strnlen(said, fingerprint_bytes));
  }
  return texts;
}

}  // namespace dpbench
