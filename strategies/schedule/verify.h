// Verifies a pipeline schedule without running it. Each rule has a name. A fault of the schedule is reported with its
// rule, rank, action, stage and micro-batch.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/schedule/schedule.h"

namespace dpbench::pipeline {

enum class Rule {
  unknown_work,
  placement,
  missing_work,
  repeated_work,
  work_order,
  gradient_order,
  live_activations,
  unpaired_transfer,
  transfer_order,
  gradient_reduction,
  tied_reduction,
  channel_order,
  receive_slot,
  deadlock,
  deadlock_unbuffered
};

inline constexpr size_t rule_count = 15;

std::string meaning_of(Rule rule);

struct Fault {
  Rule rule = Rule::unknown_work;
  int rank = 0;
  // Index of the action in the rank's list; unset if the fault is that an action is missing.
  std::optional<size_t> position;
  Action action;
  std::string why;
};

// Returns the fault as one line of text, such as "work-order: rank 2, action 17, 2W4 (stage 2, micro-batch 4): ...".
std::string text_of(const Fault& fault);

// Checks the groups of rules one after the other, and returns the faults of the first group that finds any: later
// groups would report only consequences of these faults. Returns an empty list if the schedule is correct.
std::vector<Fault> verify(const Schedule& schedule);

// The groups of rules that verify() checks. Each group requires that the groups before it found no fault.
std::vector<Fault> work_faults(const Schedule& schedule);
std::vector<Fault> order_faults(const Schedule& schedule);
std::vector<Fault> transfer_faults(const Schedule& schedule);
std::vector<Fault> channel_faults(const Schedule& schedule);
std::vector<Fault> deadlock_faults(const Schedule& schedule);

}  // namespace dpbench::pipeline

namespace dpbench {

template <>
inline constexpr auto enum_names<pipeline::Rule> = std::to_array<std::string_view>(
    {"unknown-work", "placement", "missing-work", "repeated-work", "work-order", "gradient-order", "live-activations",
     "unpaired-transfer", "transfer-order", "gradient-reduction", "tied-reduction", "channel-order", "receive-slot",
     "deadlock", "deadlock-unbuffered"});

}  // namespace dpbench
