#include "workloads/base/work_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>

namespace dpbench {
namespace {

// The owner of a queue. `ended` is called once the queue has been destroyed.
struct Owner {
  std::shared_ptr<void> ended;
  WorkQueue queue;
};

TEST(WorkQueue, IsDestroyedByAJobThatHoldsTheLastReferenceToItsOwner) {
  std::promise<void> ended, released;
  bool ran = false;
  auto owner = std::make_shared<Owner>();
  owner->ended = {nullptr, [&](std::nullptr_t) { ended.set_value(); }};
  WorkQueue& queue = owner->queue;
  queue.push([owner, gate = released.get_future().share()] { gate.wait(); });
  queue.push([&] { ran = true; });
  owner.reset();
  released.set_value();
  ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(ran);  // the queue drops its remaining jobs, because they may use the owner, which no longer exists
}

TEST(WorkQueue, RunsTheQueuedJobsBeforeItIsDestroyed) {
  int ran = 0;
  {
    WorkQueue queue;
    for (int i = 0; i < 3; ++i) queue.push([&] { ++ran; });
  }
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace dpbench
