#include "harness/conform/judging.h"

#include <string>
#include <utility>

#include <ATen/Parallel.h>

#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exception_text.h"

namespace dpbench {

Judging::Judging(Rows& rows) : rows_(rows) {
  // The judging thread gets the caller's number of compute threads; a new thread would use all cores by default.
  queue_.push([threads = at::get_num_threads()] { at::set_num_threads(threads); });
}

void Judging::later(const Scenario& scenario, WorkQueue::Job judge) {
  queue_.drain();  // wait for the previous scenario, so that memory holds the evidence of two scenarios at most
  queue_.push([this, &scenario, judge = std::move(judge)] {
    const auto not_judged = [&](const std::string& why) {
      rows_.completed(false, "the strategy's results cannot be judged, scenario " + scenario.name + ": " + why);
    };
    try {
      const Computing here;
      judge();
    } catch (const std::exception& error) {
      if (out_of_memory(error))
        failed_ = std::current_exception();
      else
        not_judged(message_of(error));
    } catch (...) {
      not_judged("an exception that is not a std::exception");
    }
  });
}

void Judging::finish() {
  queue_.drain();
  if (failed_) std::rethrow_exception(failed_);
}

}  // namespace dpbench
