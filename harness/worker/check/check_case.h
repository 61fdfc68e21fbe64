// Runs the conformance suite for one case on one rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"

namespace dpbench {

struct SuiteOptions {
  std::string filter = {};  // extended regular expression on check names; empty: all
  int seeds = 1;
  int whole_worlds = 0;   // larger worlds run costly scenarios on thorough probes only
  std::string dump = {};  // directory for each rank's tensors; empty: no dump
};

// Returns the checks to pass before timing, as an expression on check names. They are cheap and use batches like the
// timed ones, so an exception in the timed steps also occurs here. gradient-meaning is included because
// gradient-vs-baseline is skipped if BatchNorm couples samples. They run three scenarios: float64, the timed dtype (CPU
// only, since a GPU's rounding cannot be replayed on a CPU), and twenty steps in which the loss must fall. Accumulation
// and clipping, if the case uses them, add a float64 and a timed-dtype scenario each.
std::string checks_before_timing(const CaseSpec& spec);

struct CheckFailure {
  FailureKind kind = FailureKind::failure;
  std::string reason;
};

struct CheckedCase {
  std::vector<CheckRow> rows;  // empty except on rank 0
  bool group_whole = true;     // all ranks completed, so the group is still usable; equal on every rank
  bool sound = true;           // group_whole, no check failed, all values are finite; equal on every rank
  // Set if this rank's timed steps would fail: the strategy threw ("failure"), this rank produced the first non-finite
  // loss, gradient or parameter ("nan"), or collectives differ between ranks ("peer").
  std::optional<CheckFailure> failure = {};
};

// Collective. Beats `pulse` throughout: judging has no time limit.
CheckedCase check_case(const CaseSpec& spec, const SuiteOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir);

}  // namespace dpbench
