// Runs the judges (functions that verify recorded results) on a separate thread, one scenario at a time, while the
// ranks run the next scenario.
#pragma once

#include <exception>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/scenario.h"
#include "workloads/base/work_queue.h"

namespace dpbench {

class Judging {
 public:
  // rows: the result table. Only the judging thread writes to it until finish() returns.
  explicit Judging(Rows& rows);
  // Queues `judge` for the judging thread. If `judge` throws, other than for lack of memory, the check run-completes
  // fails, because the strategy reported results that cannot be verified.
  void later(const Scenario& scenario, WorkQueue::Job judge);
  // Waits until all queued judges have run. Rethrows out-of-memory errors, which are not the strategy's fault.
  void finish();

 private:
  Rows& rows_;
  std::exception_ptr failed_;
  WorkQueue queue_;  // the queue is declared last: its thread ends before the other members are destroyed
};

}  // namespace dpbench
