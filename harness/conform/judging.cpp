#include "harness/conform/judging.h"

#include <string>
#include <utility>

#include <ATen/Parallel.h>

#include "harness/conform/evidence/exception_text.h"

namespace dpbench {

Judging::Judging(Rows& rows) : rows_(rows) {
  queue_.push(
      [threads = at::get_num_threads()] { at::set_num_threads(threads); });  // a new thread would take all cores
}

void Judging::later(const Scenario& scenario, WorkQueue::Job judge) {
  queue_.drain();  // the evidence of one scenario at a time is kept beside that of the next
  queue_.push([this, &scenario, judge = std::move(judge)] {
    const auto cannot = [&](const std::string& why) {
      rows_.completed(false, "what was reported cannot be judged, scenario " + scenario.name + ": " + why);
    };
    try {
      judge();
    } catch (const std::exception& error) {
      if (out_of_memory(error))
        failed_ = std::current_exception();
      else
        cannot(message_of(error));
    } catch (...) {
      cannot("an exception that is no std::exception");
    }
  });
}

void Judging::finish() {
  queue_.drain();
  if (failed_) std::rethrow_exception(failed_);
}

}  // namespace dpbench
