#include "strategies/schedule/verify.h"

namespace dpbench::pipeline {

std::string meaning_of(Rule rule) {
  switch (rule) {
    case Rule::unknown_work:
      return "every action names a stage and a micro-batch that exist";
    case Rule::placement:
      return "a stage lies on one rank, and all ranks have equally many";
    case Rule::missing_work:
      return "each stage runs F and B, or F, I and W, for each micro-batch";
    case Rule::repeated_work:
      return "no computation runs twice";
    case Rule::work_order:
      return "a computation follows those of its rank that it needs";
    case Rule::gradient_order:
      return "forward passes, input gradients and weight gradients of a stage are each in ascending micro-batch order, "
             "so sums have the bits of one device";
    case Rule::live_activations:
      return "a rank keeps no more activations than declared";
    case Rule::unpaired_transfer:
      return "each result that another rank needs is sent once and received once";
    case Rule::transfer_order:
      return "a send follows its computation, and a receive precedes it";
    case Rule::gradient_reduction:
      return "a stage reduces its gradients once, after its last weight gradient";
    case Rule::tied_reduction:
      return "ranks with shared parameters reduce once, after the last weight gradient of all their stages";
    case Rule::channel_order:
      return "a channel delivers micro-batches in the order in which they are received";
    case Rule::receive_slot:
      return "a receive buffer is reused only after its consumer";
    case Rule::deadlock:
      return "the step ends if sends never wait";
    case Rule::deadlock_unbuffered:
      return "the step ends if each send waits for its receive";
  }
  return "";
}

std::string text_of(const Fault& fault) {
  const std::string where = fault.position ? ", action " + std::to_string(*fault.position) : "";
  return name_of(fault.rule) + ": rank " + std::to_string(fault.rank) + where + ", " + described(fault.action) + ": " +
         fault.why;
}

std::vector<Fault> verify(const Schedule& schedule) {
  for (const auto group : {work_faults, order_faults, transfer_faults, channel_faults, deadlock_faults})
    if (std::vector<Fault> faults = group(schedule); !faults.empty()) return faults;
  return {};
}

}  // namespace dpbench::pipeline
