// The conformance suite on one case, for one rank.
#pragma once

#include <string>
#include <vector>

#include "harness/report/case.h"
#include "harness/worker/group.h"

namespace dpbench {

struct CheckOptions {
  std::string filter = {};  // extended regular expression on check names; empty: all
  int seeds = 1;
  int whole_worlds = 0;     // in larger worlds costly scenarios are kept for thorough probes
  std::string dump = {};    // directory for what every rank saw; empty: nothing is written
};

// What a case must pass before its speed counts, cheap enough to stand before every timing. All of it on rows such as are timed:
// what throws there would throw in the timed steps.
inline constexpr char checks_before_timing[] = "^(output-shape|output-dtype|loss-finite|gradient-vs-baseline|loss-falls)$";

struct CheckedCase {
  std::vector<CheckRow> rows;  // on rank 0, none elsewhere
  bool group_whole = true;     // false on every rank: some did not come to an end, the group is of no more use
  std::string threw = {};      // what the strategy threw on this rank, of itself, and where; empty: nothing
};

CheckedCase check_case(const CaseSpec& spec, const CheckOptions& options, const Group& group,
                       const std::string& shared_dir);

}  // namespace dpbench
