// Runs jobs in order on a dedicated thread, which starts with the first job. Does not depend on torch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace dpbench {

class WorkQueue {
 public:
  using Job = std::function<void()>;  // a job (a function run by the queue), which must not throw

  // Runs the jobs that are still queued, then ends the thread. The last reference to the queue's owner can belong to a
  // job, for example to a tensor whose autograd graph holds a process group. The queue is then destroyed on its own
  // thread: jobs that are still queued are dropped, and the thread ends by itself.
  ~WorkQueue();
  void push(Job job);
  bool idle() const { return state_->unfinished.load(std::memory_order_acquire) == 0; }
  // Returns true if called from a job of this queue. Must not be called while another thread pushes the queue's first
  // job.
  bool runs_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  void drain();

 private:
  // Shared with the thread, which may outlive the queue.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;
    std::atomic<int> unfinished{0};
    bool stop = false;

    void run();
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace dpbench
