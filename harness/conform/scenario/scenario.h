// What a strategy is put through: one row of a table each. Pure: every rank works out the same rows without a word.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

enum class Split { even, uneven, few };  // few: from the second step on fewer rows than replicas, so some have none

struct Scenario {
  std::string name;
  std::string gradient_check;  // the name of the row that judges its gradients
  std::vector<std::string> further_checks = {};
  std::vector<std::string> repeat_checks = {};  // those of a second run of the same; empty: there is none
  at::ScalarType dtype = at::kDouble;
  Split rows = Split::even;
  int64_t accumulate = 1;
  int64_t steps = 3;
  int64_t judged_from = 0;  // the oracle works out no gradients, outputs and buffers of the steps before
  bool same_rows = false;   // every step, and every micro-batch of it, sees the same rows; else the last has fewer
  double clip = 0;          // at so many times the norm that the first gradient has; 0: not at all
  std::optional<double> poison = {};  // what stands in one row of one rank in the last step
  bool huge = false;                  // gradients whose sum over ranks float16 cannot hold; it can hold their mean
  bool late = false;                  // collectives finish late
  bool learns = false;                // the loss must fall
  bool losses_alone = false;       // nothing else of it is asked for: of what the steps make only their losses are kept
  bool counts_reductions = false;  // of the last step; with micro-batches they are compared with those of one without
  bool keep_reductions = false;    // inputs and outputs of the reductions go into the evidence
  bool small_buckets = false;      // where the strategy has a parameter for it
  bool smooth = false;             // on the workload's smooth twin
  bool reload = false;             // destroyed after the second step and made again from what it reported
  bool against_one_device = false;  // the gradient of all rows on one device is worked out as well
  bool evaluates_between = false;   // after the first step as well as after the last
  bool costly = false;              // in the short form only on workloads where it can tell more than on others
};

// Where the rows go: the ranks of a strategy of ranks, or the replicas of a process that gets them all.
struct Layout {
  Parallelism parallelism = Parallelism::ranks;
  int world = 1;
  int64_t rows_per_rank = 4;
  int64_t samples = 0;

  int owners() const { return parallelism == Parallelism::ranks ? world : 1; }
};

// Those that make sense there; costly: the costly ones too.
std::vector<Scenario> scenarios(const Layout& layout, at::ScalarType working, bool costly);

// The names of all checks that it can be judged by.
std::vector<std::string> checks_of(const Scenario& scenario);

// The sample ids of each micro-batch of a step that `owner` (a rank, or 0 for one process) is given. Maybe none.
std::vector<at::Tensor> ids_of(const Scenario& scenario, const Layout& layout, uint64_t seed, int64_t step, int owner);

// How many rows each of `replicas` gets of a batch: pieces of ceil(rows / replicas), the last shorter, maybe fewer
// pieces.
std::vector<int64_t> chunk_sizes(int64_t rows, int replicas);

// Which (owner, step) a poisoned scenario poisons.
std::pair<int, int64_t> poisoned(const Scenario& scenario, const Layout& layout);

}  // namespace dpbench
