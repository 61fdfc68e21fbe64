#include "harness/worker/measure/collective_watch.h"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>

namespace dpbench {

void CollectiveWatch::start() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
  caller_ = std::this_thread::get_id();
  on_ = true;
}

const std::deque<CollectiveWatch::Seen>& CollectiveWatch::stop() {
  on_ = false;
  const auto missing = [&](const Seen& one) { return one.end.load() == Time{}; };
  // Wait up to a second for missing end times: a thread waiting for a collective may wake before the future's callback
  // has stored its end time.
  for (int i = 0; timed_ && i < 1000 && std::any_of(seen_.begin(), seen_.end(), missing); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return seen_;
}

CollectiveWatch::Seen& CollectiveWatch::next(const Call& call) {
  const std::lock_guard lock(mutex_);
  Seen& seen = seen_.emplace_back();
  seen.op = name_of(call.op);
  seen.phase = std::this_thread::get_id() == caller_ ? phases_.current() : -1;
  for (const at::Tensor& tensor : call.input.empty() ? call.output : call.input)
    seen.bytes += static_cast<int64_t>(tensor.nbytes());
  return seen;
}

ForwardingBackend::WorkPtr CollectiveWatch::around(Call call) {
  if (!on_) return call.run();
  Seen& seen = next(call);
  seen.start = Phases::Clock::now();
  WorkPtr work = call.run();
  const Time returned = Phases::Clock::now();
  if (!timed_) return work;
  if (std::this_thread::get_id() == caller_) phases_.move(Phase::communication, seen.start, returned);
  if (work->isCompleted())
    seen.end = returned;
  else
    note_end(*work, seen);
  return work;
}

// Stores the end time of a collective when it completes. Disables timing if its Work has no future (Gloo's send and
// receive).
void CollectiveWatch::note_end(c10d::Work& work, Seen& seen) {
  try {
    work.getFuture()->addCallback([&seen](c10::ivalue::Future&) { seen.end = Phases::Clock::now(); });
  } catch (const c10::Error&) {
    timed_ = false;
  }
}

}  // namespace dpbench
