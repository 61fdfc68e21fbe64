// Work done one piece after another on a thread of its own, while whoever hands it over goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace dpbench {

class InOrder {
 public:
  using Work = std::function<void()>;

  InOrder() : thread_([this] { serve(); }) {}
  ~InOrder();  // what has not begun by then is dropped
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  void add(Work work);  // waits while too much is waiting already
  void finish();        // waits until all is done; throws what the first failing piece threw

 private:
  static constexpr size_t most_waiting = 1;

  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::exception_ptr failed_;
  bool busy_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace dpbench
