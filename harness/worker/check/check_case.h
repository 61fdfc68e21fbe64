// The conformance suite on one case, for one rank.
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
  int whole_worlds = 0;   // in larger worlds costly scenarios are kept for thorough probes
  std::string dump = {};  // directory for what every rank saw; empty: nothing is written
};

// What a case must pass before its speed counts, as an expression on check names; cheap enough to stand before every
// timing. All of it on rows such as are timed: what throws there would throw in the timed steps. gradient-meaning too:
// where BatchNorm couples rows, nothing is held against the baseline. Three scenarios: float64, the type that is timed
// (on a CPU: a GPU's rounding cannot be repeated there), and twenty steps in which the loss must fall, of which nothing
// but the losses is kept; both types once more for each of accumulating and clipping where the timed steps do that.
std::string checks_before_timing(const CaseSpec& spec);

struct CheckFailure {
  FailureKind kind = FailureKind::failure;
  std::string reason;
};

struct CheckedCase {
  std::vector<CheckRow> rows;  // on rank 0, none elsewhere
  bool group_whole = true;     // the same on every rank: all came to an end, else the group is of no more use
  bool sound = true;           // the same on every rank: they did, no check failed, and all was made of numbers
  // What this rank has to say of timed steps that would fail, rather than be wrong: the strategy's own exception
  // ("failure"), the first loss, gradient or parameter of all ranks that is no number ("nan"), calls that differ
  // between ranks ("peer").
  std::optional<CheckFailure> failure = {};
};

// Beats as it goes: judging takes as long as it takes.
CheckedCase check_case(const CaseSpec& spec, const SuiteOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir);

}  // namespace dpbench
