// c10d backend wrappers for observing a strategy: RecordingBackend lists the strategy's collectives for the evidence,
// LateBackend delays them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

class RecordingBackend : public ForwardingBackend {
 public:
  // axis: the mesh axis in whose group the collectives are called.
  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string axis)
      : ForwardingBackend(std::move(inner)), axis_(std::move(axis)) {}

  // Discards the collectives recorded so far and records anew. keep: if true, also copies the inputs and outputs of
  // reductions, which makes each reduction blocking.
  void start(bool keep);
  // Marks all further collectives of the calling thread as called by accessors (e.g. Strategy::gradients()). Other
  // threads may still be finishing the step.
  void step_returned();
  std::vector<Collective> stop();

 protected:
  WorkPtr around(Call call) override;

 private:
  std::string axis_;
  std::mutex mutex_;
  bool on_ = false, keep_ = false;
  std::thread::id reader_ = {};  // the thread that calls the strategy's accessors; no thread during a step
  std::vector<Collective> record_;
};

// Starts calls in order on a separate thread. The delay of a rank cycles from call to call through 0, 2 and 4 ms, so
// each call delays the ranks differently. A faulty strategy that does not wait for a collective then reads the tensor
// before the collective has changed it. If a later call is already queued, a third of the calls, drawn at random, end
// 12 ms later, so the later call can end first, as torch's Work allows. Until its end, a call's output has its old
// values.
class LateBackend : public ForwardingBackend {
 public:
  LateBackend(c10::intrusive_ptr<c10d::Backend> inner, uint64_t seed);
  ~LateBackend() override;

  // Returns once all calls have ended and their callbacks have returned. To be called before the process group is
  // destroyed: a callback can hold a reference to it, and the backend cannot be destroyed on one of its own threads.
  void settle();

 protected:
  WorkPtr around(Call call) override;

 private:
  using Rest = std::function<void()>;

  Rest run(const Call& call);
  bool has_later_calls();
  void serve();

  uint64_t seed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false, running_ = false;  // running_: `thread_` is carrying out a call
  int late_calls_ = 0;
  // Each future's thread ends one collective late. Only `thread_` accesses this list while it is carrying out a call.
  std::vector<std::future<void>> ends_;
  std::thread thread_;
};

}  // namespace dpbench
