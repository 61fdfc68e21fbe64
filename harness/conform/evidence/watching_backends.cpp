#include "harness/conform/evidence/watching_backends.h"

#include <chrono>
#include <exception>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace dpbench {
namespace {

// Unit of the delay of a collective, longer than a faulty strategy takes to read a result without waiting for it.
constexpr std::chrono::milliseconds delay{2};

std::vector<at::Tensor> copies(const ForwardingBackend::Tensors& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors)
    result.push_back(tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return result;
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

LateBackend::LateBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : ForwardingBackend(std::move(inner)), thread_([this] { serve(); }) {}

LateBackend::~LateBackend() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

ForwardingBackend::WorkPtr LateBackend::around(Call call) {
  auto work = c10::make_intrusive<LateWork>();
  const std::lock_guard lock(mutex_);
  queue_.emplace_back([this, future = work->getFuture(), call = std::move(call)] {
    try {
      std::this_thread::sleep_for(delay * ((getRank() + late_calls_++) % 3));
      const auto end = [=, started = call.run()] {
        try {
          started->wait();
          future->markCompleted(c10::IValue(call.output));
        } catch (...) {
          future->setError(std::current_exception());
        }
      };
      // A send waits for its receiver, which may first have to start a send of its own. So its end is awaited on
      // another thread.
      is_point_to_point(call.op) ? ends_.push_back(std::async(std::launch::async, end)) : end();
    } catch (...) {
      future->setError(std::current_exception());
    }
  });
  changed_.notify_one();
  return work;
}

void LateBackend::serve() {
  const at::NoGradGuard no_grad;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
  }
}

}  // namespace dpbench
