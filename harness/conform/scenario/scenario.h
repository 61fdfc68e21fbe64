// Scenarios: the test runs of a strategy, each with its batch sizes, dtype and number of steps. All functions here are
// pure, so every rank computes the same batches without communication.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// few: from the second step on there are fewer samples than replicas, so some replicas get none
enum class Split { even, uneven, few };

struct Scenario {
  std::string name;
  std::string gradient_check;  // name of the check of the scenario's gradients
  std::vector<std::string> further_checks = {};
  std::vector<std::string> repeat_checks = {};  // checks that need a second run; if empty, the scenario runs once
  at::ScalarType dtype = at::kDouble;
  Split rows = Split::even;
  int64_t accumulate = 1;
  int64_t steps = 3;
  // First step whose gradients, outputs and buffers are compared with the oracle (the reference computation).
  int64_t judged_from = 0;
  bool same_rows = false;             // true: all micro-batches have equal size; false: the last one is smaller
  double clip = 0;                    // clipping limit as a multiple of the first gradient's norm; 0: no clipping
  std::optional<double> poison = {};  // value (NaN or infinity) that replaces one sample of one rank in the last step
  // Scale the loss until the sum of the ranks' gradients exceeds float16's range but their mean does not.
  bool huge = false;
  bool late = false;               // delay the start of collectives, to detect results read too early
  bool learns = false;             // check that the loss falls
  bool losses_alone = false;       // only the losses are checked, so nothing else is recorded
  bool counts_reductions = false;  // count the reductions of the last step; micro-batches must not add any
  bool keep_reductions = false;    // record the inputs and outputs of reductions
  bool small_buckets = false;      // use small buckets if the strategy has a parameter for their size
  bool smooth = false;             // run the workload with softplus instead of ReLU
  bool reload = false;             // after the second step, destroy the strategy and restore it from its reported state
  bool against_one_device = false;  // also compare the gradient with that of all samples on one device
  bool evaluates_between = false;   // evaluate after the first step too, not only after the last
  bool costly = false;  // in the short form of `check`, run the scenario only on workloads marked as thorough
};

// How samples are distributed: over ranks, or over the replicas of one process.
struct Layout {
  Parallelism parallelism = Parallelism::ranks;
  int world = 1;
  int64_t rows_per_rank = 4;
  int64_t samples = 0;

  int owners() const { return parallelism == Parallelism::ranks ? world : 1; }
};

// Returns the scenarios for a distribution of samples and a working dtype. costly: include slow scenarios.
std::vector<Scenario> scenarios(const Layout& layout, at::ScalarType working, bool costly);

// Returns the names of all checks of a scenario.
std::vector<std::string> checks_of(const Scenario& scenario);

// Returns the sample ids of each micro-batch of a step for `owner` (a rank, or 0 for one process). The list is empty if
// the owner gets no samples.
std::vector<at::Tensor> ids_of(const Scenario& scenario, const Layout& layout, uint64_t seed, int64_t step, int owner);

// Returns the piece sizes of a batch split like torch.chunk: pieces of ceil(rows / replicas) samples and a shorter last
// one. There may be fewer pieces than replicas.
std::vector<int64_t> chunk_sizes(int64_t rows, int replicas);

// Returns the owner (a rank, or 0 for one process) and the step that get the sample with a NaN or infinity.
std::pair<int, int64_t> poisoned(const Scenario& scenario, const Layout& layout);

}  // namespace dpbench
