// Runs jobs in order on a dedicated thread, which starts with the first job. Does not depend on torch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dpbench {

class WorkQueue {
 public:
  using Job = std::function<void()>;  // a job (a function run by the queue), which must not throw

  ~WorkQueue();  // Runs the jobs that are still queued, then ends the thread.
  void push(Job job);
  bool idle() const { return unfinished_.load(std::memory_order_acquire) == 0; }
  // Returns true if called from a job of this queue. Must not be called while another thread pushes the queue's first
  // job.
  bool runs_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::atomic<int> unfinished_{0};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dpbench
