// Runs the conformance suite (the checks of a strategy's mathematics) for one case on one rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"

namespace dpbench {

struct SuiteOptions {
  std::string filter = {};                  // regular expression on check names; empty: run all checks
  std::vector<std::string> scenarios = {};  // names of the scenarios to run; empty: all that the case has
  int seeds = 1;
  // Worlds of at most this size run costly scenarios (slow test runs of the strategy) on every workload. Larger worlds
  // run them only on workloads marked as thorough (WorkloadInfo::thorough).
  int whole_worlds = 0;
  // True: all scenarios but `unwatched` run at most two steps, unless the workload is a probe (small test model).
  bool brief = false;
  // Time limit for computing the expected results of the scenario `unwatched`, which runs as many steps as fit into it.
  double unwatched_s = 1;
  std::string dump = {};  // directory for files of each rank's tensors; empty: no files
  // A function called before each scenario, with its number from 1 and the number of scenarios; may be empty.
  std::function<void(size_t number, size_t of)> begins = {};
};

// Returns the names of the scenarios to run before timing. `even` and `uneven` run in float64, `working` and
// `uneven-working` in the timed dtype; the uneven ones have different numbers of samples on the ranks. `unwatched`
// runs as a timed run does: only the loss is read after each step, all other tensors after the last one. A case with
// micro-batches or clipping also runs the scenarios with micro-batches or clipping. All scenarios use batches like the
// timed ones, so an exception of the timed steps usually occurs in them already.
std::vector<std::string> scenarios_before_timing(const CaseSpec& spec);
// Returns a regular expression that matches the names of the checks that run before timing. Checks that need a second
// run of a scenario are not among them.
std::string checks_before_timing(const CaseSpec& spec);

struct CheckFailure {
  FailureKind kind = FailureKind::failure;
  std::string reason;
};

struct CheckedCase {
  std::vector<CheckRow> rows;  // results of the checks; empty except on rank 0
  // True if every rank completed the checks, so that the process group is still usable; equal on every rank.
  bool group_whole = true;
  // True if every rank completed the checks, no check failed and all values are finite; equal on every rank.
  bool sound = true;
  Refusal refusal = Refusal::none;  // what the strategy refused to run on this rank
  // Set if this rank's timed steps would fail as well: the strategy threw (kind `failure`), this rank produced the
  // first non-finite loss, gradient or parameter (`nan`), or its collectives differ from another rank's (`peer`).
  std::optional<CheckFailure> failure = {};
};

// Runs the conformance checks of a case. Collective: every rank must call it. Sends a heartbeat through `pulse` after
// each scenario, because the checks of a case may take longer than --timeout.
CheckedCase check_case(const CaseSpec& spec, const SuiteOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir);

}  // namespace dpbench
