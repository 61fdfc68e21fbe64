// What a strategy is put through: one row of a table each. Pure: every rank works out the same rows without a word.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/case.h"
#include "strategies/strategy.h"

namespace dpbench {

enum class Split { even, uneven, few };  // few: fewer rows than replicas, so some have none

struct Scenario {
  std::string name;
  std::string gradient_check;  // what the row that judges its gradients is called
  at::ScalarType dtype = at::kDouble;
  Split rows = Split::even;
  int64_t accumulate = 1;
  int64_t steps = 3;
  bool same_rows = false;        // every step, and every micro-batch of it, sees the same rows
  bool clip = false;             // at half the norm that the first gradient has
  bool poison = false;           // one row of one rank is NaN in the last step
  bool late = false;             // collectives finish late
  bool keep_reductions = false;  // inputs and outputs of the reductions go into the evidence
  bool small_buckets = false;    // where the strategy has a parameter for it
  bool smooth = false;           // on the workload's smooth twin
  bool reload = false;           // destroyed after the second step and made again from what it reported
  bool long_form = false;        // only there
};

// Where the rows go: the ranks of a strategy of ranks, or the replicas of a process that gets them all.
struct Layout {
  Parallelism parallelism = Parallelism::ranks;
  int world = 1;
  int64_t rows_per_rank = 4;
  int64_t samples = 0;

  int owners() const { return parallelism == Parallelism::ranks ? world : 1; }
};

std::vector<Scenario> scenarios(const Layout& layout, at::ScalarType working, bool long_form);

// The sample ids of each micro-batch of a step that `owner` (a rank, or 0 for one process) is given. Maybe none.
std::vector<at::Tensor> ids_of(const Scenario& scenario, const Layout& layout, uint64_t seed, int64_t step, int owner);

// How many rows each of `replicas` gets of a batch: pieces of ceil(rows / replicas), the last shorter, maybe fewer pieces.
std::vector<int64_t> chunk_sizes(int64_t rows, int replicas);

// Which (owner, step) a poisoned scenario poisons.
std::pair<int, int64_t> poisoned(const Scenario& scenario, const Layout& layout);

}  // namespace dpbench
