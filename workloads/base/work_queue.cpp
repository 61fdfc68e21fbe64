#include "workloads/base/work_queue.h"

namespace dpbench {

WorkQueue::~WorkQueue() {
  const bool on_own_thread = runs_this_thread();
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    if (on_own_thread) dropped.swap(state_->jobs);
  }
  state_->changed.notify_all();
  if (on_own_thread)
    thread_.detach();
  else if (thread_.joinable())
    thread_.join();
}

void WorkQueue::push(Job job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::move(job));
    ++state_->unfinished;
    if (!thread_.joinable()) thread_ = std::thread([state = state_] { state->run(); });
  }
  state_->changed.notify_all();
}

void WorkQueue::drain() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return idle(); });
}

void WorkQueue::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stop || !jobs.empty(); });
    if (jobs.empty()) return;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // frees the finished job's tensors before drain() returns
    lock.lock();
    --unfinished;
    changed.notify_all();
  }
}

}  // namespace dpbench
