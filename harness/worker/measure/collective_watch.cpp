#include "harness/worker/measure/collective_watch.h"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>

namespace dpbench {

void CollectiveLog::start() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
  caller_ = std::this_thread::get_id();
  on_ = true;
}

const std::deque<CollectiveLog::Call>& CollectiveLog::stop() {
  on_ = false;
  const auto missing = [&] {
    const std::lock_guard lock(mutex_);  // another thread may be logging a call of the last step
    return std::ranges::any_of(calls_, [](const Call& one) { return one.end.load() == Time{}; });
  };
  // The end time of a collective may be missing for a moment: a thread that waits for the collective may wake before
  // the future's callback has stored the time. So wait up to a second for missing times.
  for (int i = 0; timed_ && i < 1000 && missing(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return calls_;
}

CollectiveLog::Call& CollectiveLog::next() {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.emplace_back();
  call.phase = on_steps_thread() ? phases_.current() : -1;
  return call;
}

ForwardingBackend::WorkPtr CollectiveWatch::around(Call call) {
  if (!log_.on_) return call.run();
  CollectiveLog::Call& logged = log_.next();
  logged.op = name_of(call.op);
  logged.axis = axis_;
  logged.bytes = call.bytes();
  logged.start = Phases::Clock::now();
  WorkPtr work = call.run();
  const auto returned = Phases::Clock::now();
  if (!log_.timed_) return work;
  if (log_.on_steps_thread()) log_.phases_.move(Phase::communication, logged.start, returned);
  if (work->isCompleted())
    logged.end = returned;
  else
    note_end(*work, logged);
  return work;
}

// Stores the end time of a collective when it completes. Disables timing if its Work has no future (Gloo's send and
// receive).
void CollectiveWatch::note_end(c10d::Work& work, CollectiveLog::Call& logged) {
  try {
    work.getFuture()->addCallback([&logged](c10::ivalue::Future&) { logged.end = Phases::Clock::now(); });
  } catch (const c10::Error&) {
    log_.timed_ = false;
  }
}

}  // namespace dpbench
