// Two ways to watch a strategy's collectives: write them down, or let them finish late.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

class RecordingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // Starts a new record. keep: inputs and outputs of reductions too, which makes each of them wait for its end.
  void start(bool keep);
  std::vector<Collective> stop();

 protected:
  WorkPtr around(Call call) override;

 private:
  std::mutex mutex_;
  bool on_ = false, keep_ = false;
  std::vector<Collective> record_;
};

// Each collective starts only after a delay, in a thread of its own and in order: whoever uses a result without having
// waited for it always reads the old value, not only now and then.
class LateBackend : public ForwardingBackend {
 public:
  explicit LateBackend(c10::intrusive_ptr<c10d::Backend> inner);
  ~LateBackend() override;

 protected:
  WorkPtr around(Call call) override;

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace dpbench
