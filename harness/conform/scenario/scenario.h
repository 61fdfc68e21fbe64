// The scenarios that a strategy is tested with. Everything here is a pure function, so all ranks compute the same
// batches without communication.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

enum class Split { even, uneven, few };  // few: fewer samples than replicas from the second step on, so some get none

struct Scenario {
  std::string name;
  std::string gradient_check;  // name of the check of its gradients
  std::vector<std::string> further_checks = {};
  std::vector<std::string> repeat_checks = {};  // checks of a second run; empty: no second run
  at::ScalarType dtype = at::kDouble;
  Split rows = Split::even;
  int64_t accumulate = 1;
  int64_t steps = 3;
  int64_t judged_from = 0;            // first step with gradients, outputs and buffers from the oracle
  bool same_rows = false;             // every micro-batch has the same samples; otherwise the last one is smaller
  double clip = 0;                    // clip to this multiple of the first gradient's norm; 0: no clipping
  std::optional<double> poison = {};  // this value replaces one sample of one rank in the last step
  bool huge = false;                  // the sum of the ranks' gradients exceeds float16's range, their mean does not
  bool late = false;                  // collectives start after a delay
  bool learns = false;                // the loss must fall
  bool losses_alone = false;          // only losses are checked, so nothing else is kept as evidence
  bool counts_reductions = false;     // count the last step's reductions; micro-batches must not add any
  bool keep_reductions = false;       // keep inputs and outputs of the reductions as evidence
  bool small_buckets = false;         // use small buckets if the strategy has a parameter for them
  bool smooth = false;                // run the workload's smooth twin
  bool reload = false;  // after the second step, destroy the strategy and restore it from its reported state
  bool against_one_device = false;  // also compare with the gradient of all samples on one device
  bool evaluates_between = false;   // evaluate after the first step too, not only after the last
  bool costly = false;              // the short form of `check` runs it on thorough workloads only
};

// How samples are distributed: over the ranks, or within one process over its replicas.
struct Layout {
  Parallelism parallelism = Parallelism::ranks;
  int world = 1;
  int64_t rows_per_rank = 4;
  int64_t samples = 0;

  int owners() const { return parallelism == Parallelism::ranks ? world : 1; }
};

// Returns the scenarios that apply to a layout. costly: include costly ones.
std::vector<Scenario> scenarios(const Layout& layout, at::ScalarType working, bool costly);

// Names of all checks of a scenario.
std::vector<std::string> checks_of(const Scenario& scenario);

// Returns the sample ids of each micro-batch of a step for `owner` (a rank, or 0 for one process). May be empty.
std::vector<at::Tensor> ids_of(const Scenario& scenario, const Layout& layout, uint64_t seed, int64_t step, int owner);

// Splits a batch like torch.chunk: pieces of ceil(rows / replicas) samples, a shorter last one, possibly fewer pieces
// than replicas.
std::vector<int64_t> chunk_sizes(int64_t rows, int replicas);

// The (owner, step) that gets the poisoned sample.
std::pair<int, int64_t> poisoned(const Scenario& scenario, const Layout& layout);

}  // namespace dpbench
