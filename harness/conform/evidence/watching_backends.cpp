#include "harness/conform/evidence/watching_backends.h"

#include <chrono>
#include <exception>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "harness/conform/probes/drawn.h"

namespace dpbench {
namespace {

// Unit of the delays of collectives. It is longer than a faulty strategy takes to read a collective's result without
// waiting for it.
constexpr std::chrono::milliseconds delay{2};
// Delay of a collective that later ones shall overtake, in units. Later collectives take up to two units each.
constexpr int units_of_overtaken = 6;

std::vector<at::Tensor> copies(const ForwardingBackend::Tensors& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors)
    result.push_back(tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return result;
}

std::vector<at::Tensor> clones(const ForwardingBackend::Tensors& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

// Overwrites tensors as a collective does: autograd's version counters stay unchanged.
void overwrite(const ForwardingBackend::Tensors& tensors, const std::vector<at::Tensor>& values) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].variable_data().copy_(values[i]);
}

class LateWork : public c10d::Work {
 public:
  LateWork() : future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}
  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  bool wait(std::chrono::milliseconds) override {
    future_->waitAndThrow();
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

void RecordingBackend::start(bool keep) {
  const std::lock_guard lock(mutex_);
  on_ = true;
  keep_ = keep;
  reader_ = {};
  record_.clear();
}

void RecordingBackend::step_returned() {
  const std::lock_guard lock(mutex_);
  reader_ = std::this_thread::get_id();
}

std::vector<Collective> RecordingBackend::stop() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  return std::move(record_);
}

ForwardingBackend::WorkPtr RecordingBackend::around(Call call) {
  std::unique_lock lock(mutex_);
  const bool on = on_, keep = keep_ && call.reduction != ReduceKind::UNUSED;
  const bool by_accessor = reader_ == std::this_thread::get_id();
  lock.unlock();
  if (!on) return call.run();
  Collective entry{.op = call.op, .reduction = call.reduction, .bytes = call.bytes(), .axis = axis_};
  entry.by_accessor = by_accessor;
  for (const auto& tensor : call.input) entry.floating = entry.floating && tensor.is_floating_point();
  if (keep) entry.input = copies(call.input);
  auto work = call.run();
  if (keep) {
    work->wait();
    entry.output = copies(call.output);
  }
  lock.lock();
  record_.push_back(std::move(entry));
  return work;
}

LateBackend::LateBackend(c10::intrusive_ptr<c10d::Backend> inner, uint64_t seed)
    : ForwardingBackend(std::move(inner)), seed_(seed), thread_([this] { serve(); }) {}

LateBackend::~LateBackend() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

ForwardingBackend::WorkPtr LateBackend::around(Call call) {
  // A callback on this thread may wait for a collective that it calls. Such a collective must not be queued behind the
  // callback, so it starts at once.
  if (std::this_thread::get_id() == thread_.get_id()) return call.run();
  auto work = c10::make_intrusive<LateWork>();
  const std::lock_guard lock(mutex_);
  queue_.emplace_back([this, future = work->getFuture(), call = std::move(call)] {
    const auto end = [future, output = call.output](const Rest& rest) {
      const at::NoGradGuard no_grad;
      try {
        if (rest) rest();
        future->markCompleted(c10::IValue(output));
      } catch (...) {
        future->setError(std::current_exception());
      }
    };
    try {
      const Rest rest = run(call);
      rest ? ends_.push_back(std::async(std::launch::async, end, rest)) : end(rest);
    } catch (...) {
      future->setError(std::current_exception());
    }
  });
  changed_.notify_all();
  return work;
}

// Starts a collective after this rank's delay. If the collective has not ended on return, returns a function that ends
// it on another thread; otherwise an empty function.
LateBackend::Rest LateBackend::run(const Call& call) {
  const int number = late_calls_++;
  std::this_thread::sleep_for(delay * ((getRank() + number) % 3));
  const bool may_end_late = drawn(seed_ + static_cast<uint64_t>(getRank()), static_cast<uint64_t>(number), 0, 2) == 0;
  const Tensors before = may_end_late ? clones(call.output) : Tensors{};
  const WorkPtr started = call.run();
  // Another thread waits for the end of sends and receives. This rank's send may end only after the other rank's send
  // has been received here, and this thread starts that receive later.
  if (is_point_to_point(call.op)) return [started] { started->wait(); };
  started->wait();
  if (!may_end_late || !has_later_calls()) return {};
  const Tensors after = clones(call.output);
  overwrite(call.output, before);
  return [after, output = call.output] {
    std::this_thread::sleep_for(delay * units_of_overtaken);
    overwrite(output, after);
  };
}

bool LateBackend::has_later_calls() {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void LateBackend::serve() {
  const at::NoGradGuard no_grad;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

void LateBackend::settle() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !running_; });
    const std::vector<std::future<void>> ends = std::exchange(ends_, {});  // destructors wait for the threads
    lock.unlock();
    if (ends.empty()) return;
  }
}

}  // namespace dpbench
