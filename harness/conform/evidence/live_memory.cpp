#include "harness/conform/evidence/live_memory.h"

#include <functional>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/strategy.h"

namespace dpbench {
namespace {

// Wraps the Work of an all-gather. Calls the function `end` when the Work has been waited for or is destroyed.
class GatherWork : public c10d::Work {
 public:
  GatherWork(c10::intrusive_ptr<c10d::Work> inner, std::function<void()> end)
      : inner_(std::move(inner)), end_(std::move(end)) {}
  ~GatherWork() override { end(); }
  GatherWork(const GatherWork&) = delete;
  GatherWork& operator=(const GatherWork&) = delete;

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  void synchronize() override {
    inner_->synchronize();
    end();
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = inner_->wait(timeout);
    end();
    return done;
  }

 private:
  void end() {
    if (const auto once = std::exchange(end_, nullptr)) once();
  }

  c10::intrusive_ptr<c10d::Work> inner_;
  std::function<void()> end_;
};

class MeasuringBackend : public ForwardingBackend {
 public:
  MeasuringBackend(c10::intrusive_ptr<c10d::Backend> inner, LiveMemory& memory,
                   std::shared_ptr<std::atomic<int64_t>> gathers)
      : ForwardingBackend(std::move(inner)), memory_(memory), gathers_(std::move(gathers)) {}

 protected:
  WorkPtr around(Call call) override {
    int64_t bytes = 0;
    if (call.op == CollectiveOp::allgather)
      for (const at::Tensor& output : call.output) bytes += static_cast<int64_t>(output.nbytes());
    *gathers_ += bytes;
    memory_.measure();
    auto work = call.run();
    if (call.op != CollectiveOp::allgather || !work) return work;
    return c10::make_intrusive<GatherWork>(std::move(work), [gathers = gathers_, bytes] { *gathers -= bytes; });
  }

 private:
  LiveMemory& memory_;
  std::shared_ptr<std::atomic<int64_t>> gathers_;
};

}  // namespace

int64_t memory_of(const std::vector<at::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.has_storage() && seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  return bytes;
}

void LiveMemory::in_step(const std::shared_ptr<Strategy>& strategy) {
  const std::lock_guard lock(mutex_);
  strategy_ = strategy;
}

void LiveMemory::measure() {
  const std::lock_guard lock(mutex_);
  const auto strategy = strategy_.lock();
  const auto model = model_.lock();
  if (!strategy || !model) return;
  std::vector<at::Tensor> kept;
  for (const auto& [name, tensor] : strategy->kept_tensors().parameters) kept.push_back(tensor);
  const LiveBytes now{.kept = memory_of(kept), .parameters = memory_of(model->parameters()), .gathers = *gathers_};
  if (now.all() > most_.all()) most_ = now;
}

c10::intrusive_ptr<c10d::Backend> LiveMemory::measuring(c10::intrusive_ptr<c10d::Backend> inner) {
  return c10::make_intrusive<MeasuringBackend>(std::move(inner), *this, gathers_);
}

LiveBytes LiveMemory::most() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

}  // namespace dpbench
