// Measures a case in timed blocks that alternate with blocks of its reference, so that both run under the same load.
// The reference is the case against which the speed-up is measured, by default the baseline. Unless
// Rules::keep_disturbed is set, a pair of blocks is dropped if replicas lost cores to other programs. Up to twice the
// wanted number of pairs are run to replace dropped ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harness/front/run/launcher.h"
#include "harness/report/machine/other_load.h"

namespace dpbench {

class PairedRunner : public CaseRunner {
 public:
  // Returns the reference of a case, or null if the case has none.
  using ReferenceOf = std::function<const CaseSpec*(const CaseSpec&)>;

  struct Rules {
    uint64_t seed = 1;            // random seed that decides which block of a pair runs first
    int cores = 0;                // cores of the machine; 0: unknown
    bool keep_disturbed = false;  // true: blocks disturbed by other programs count too
    ReadCpuTimes cpu_times = {};  // reads CPU times, to compute the load of other programs
    int long_blocks = 0;  // blocks per launch of cases with steps longer than --min-time; 0: as many as for other cases
  };

  // `cases` runs the cases, and `references` the reference cases whose blocks alternate with theirs. Each needs worker
  // processes of its own.
  PairedRunner(CaseRunner& cases, CaseRunner& references, ReferenceOf reference_of, const Rules& rules);

  // Runs one launch of a case. Its reference stays set up for the next case with the same reference. `command` is the
  // message that starts the first block.
  CaseOutcome run(const CaseSpec& spec, const Json& command) override;
  std::vector<std::string> end_group() override { return cases_.end_group(); }
  std::vector<std::string> end_launch() override;
  int pending_signal() override { return cases_.pending_signal(); }

 private:
  struct Series;

  CaseOutcome block(CaseRunner& runner, const CaseSpec& spec, Json command, int64_t steps);
  std::optional<CaseOutcome> pair(const CaseSpec& spec, const Json& command, Series& series);
  int blocks_of(const Sampling& sampling, const std::vector<RankRecord>& first) const;
  std::optional<CaseOutcome> set_up_reference(const Json& command, Series& series);

  CaseRunner &cases_, &references_;
  ReferenceOf reference_of_;
  Rules rules_;
  std::mt19937_64 random_;
  std::string loaded_;        // id of the reference case that the reference workers have set up; empty: none
  int64_t loaded_steps_ = 0;  // steps per block of the reference case that the reference workers have set up
};

}  // namespace dpbench
