#include "harness/conform/in_order.h"

#include <utility>

namespace dpbench {

InOrder::~InOrder() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void InOrder::add(Work work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < most_waiting; });
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void InOrder::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void InOrder::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    if (over_) return;
    {
      const Work work = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      changed_.notify_all();
      try {
        if (!failed_) work();
      } catch (...) {
        failed_ = std::current_exception();
      }
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace dpbench
