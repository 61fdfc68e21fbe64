// The conformance suite: all checks of one case (a strategy with its workload, devices and options). Every rank of a
// group calls it; rank 0 gets the result rows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/drive.h"

namespace dpbench {

// Time limit for the expected results of the scenario `unwatched` where `check` does not run a case in full.
constexpr double short_unwatched_s = 0.05;

struct CheckRequest {
  const StrategyInfo& strategy;
  const WorkloadInfo& workload;
  WorkloadOptions options;
  int rank = 0;
  int world = 1;  // number of ranks, or of replicas in a single process
  // Rendezvous store with a prefix unique to this call; null for a single process.
  c10::intrusive_ptr<c10d::Store> store;
  Mesh mesh = {};                     // mesh of all ranks; has no process groups for a single process
  std::vector<at::Device> devices;    // the process's devices, one per replica that it runs
  at::ScalarType dtype = at::kFloat;  // dtype of scenarios that are not in float64
  ParamValues params;
  uint64_t seed = 1;
  // own_samples: samples per micro-batch of a rank; own_micros: micro-batches per step. 0: chosen by the seed. The
  // scenario `unwatched`, which runs like a timed case, uses these numbers, but fewer samples if its time limit is
  // short. The other scenarios use at most own_samples samples, but at least two, or five if the model refuses a batch
  // of one sample.
  int64_t own_samples = 0, own_micros = 0;
  std::optional<double> own_clip = {};  // the timed case's limit on the gradient's norm, for the scenario `unwatched`
  double unwatched_s = 1;               // time limit for the expected results of the scenario `unwatched`
  bool long_form = false;  // if true, costly scenarios run on all workloads, not only on those marked as thorough
  // If true, scenarios other than `unwatched` run at most two steps on workloads that are not probes (small test
  // models).
  bool brief = false;
  std::string filter;                       // a regular expression on check names; an empty one selects all checks
  std::vector<std::string> scenarios = {};  // names of the scenarios to run; empty: all that the case has
  // A function called after each run of a scenario with this rank's evidence. clip_norm: the scenario's limit on the
  // gradient's norm.
  std::function<void(const Bench&, const Scenario&, std::optional<double> clip_norm, const Evidence&)> show;
  // A function called before each scenario, with its number from 1 and the number of scenarios.
  std::function<void(size_t number, size_t of)> begins = {};
  // A function called when a scenario begins its set-up, a step or an evaluation, with a text such as "step 1 of
  // scenario even".
  std::function<void(const std::string& place)> enters = {};
};

// Runs all selected checks of a case. Returns the result rows on rank 0 and an empty list on the others. Every rank
// must call it. Throws UsageError for an invalid filter.
std::vector<CheckRow> run_checks(const CheckRequest& request);

}  // namespace dpbench
