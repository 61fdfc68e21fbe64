// Judges one scenario after the other on a thread of its own, beside what the ranks do next.
#pragma once

#include <exception>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/scenario.h"
#include "workloads/base/work_queue.h"

namespace dpbench {

class Judging {
 public:
  // `rows` is written to by that thread alone until finish() returns.
  explicit Judging(Rows& rows);
  // What a strategy reports may be what no judge expects: where `judge` throws, it is the strategy that failed.
  void later(const Scenario& scenario, WorkQueue::Job judge);
  // Waits. Throws what is no fault of the strategy: there was no memory.
  void finish();

 private:
  Rows& rows_;
  std::exception_ptr failed_;
  WorkQueue queue_;  // last: its thread ends before what it uses
};

}  // namespace dpbench
