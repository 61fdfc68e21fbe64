// Runs the judges on a separate thread, one scenario at a time, while the ranks run the next scenario.
#pragma once

#include <exception>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/scenario.h"
#include "workloads/base/work_queue.h"

namespace dpbench {

class Judging {
 public:
  // Only the judging thread writes to `rows` until finish() returns.
  explicit Judging(Rows& rows);
  // Queues `judge`. If it throws, run-completes fails: the strategy reported something that no judge can handle.
  void later(const Scenario& scenario, WorkQueue::Job judge);
  // Waits for the queue. Rethrows out-of-memory errors, which are not the strategy's fault.
  void finish();

 private:
  Rows& rows_;
  std::exception_ptr failed_;
  WorkQueue queue_;  // declared last: its thread ends before the members it uses are destroyed
};

}  // namespace dpbench
