// Scenarios: the test runs of a strategy, each with its batch sizes, dtype and number of steps. All functions here are
// pure, so every rank computes the same batches without communication.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/evidence/sample.h"
#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// How the samples of a step are split between replicas. few: from the second step on, at least one replica gets no
// samples.
enum class Split { even, uneven, few };

struct Scenario {
  std::string name;
  std::string gradient_check;  // name of the check that compares this scenario's gradients
  std::vector<std::string> further_checks = {};
  std::vector<std::string> repeat_checks = {};  // checks that need a second run of the scenario
  at::ScalarType dtype = at::kDouble;
  Split split = Split::even;
  int64_t accumulate = 1;      // largest number of micro-batches in a step
  bool varies_micros = false;  // if true, steps have different numbers of micro-batches
  int64_t steps = 3;
  // First step whose gradients, outputs and buffers are compared with the oracle (the reference computation).
  int64_t judged_from = 0;
  // If true, all micro-batches and steps use the same samples; if false, the last micro-batch is smaller.
  bool same_samples = false;
  double clip = 0;                    // clipping limit as a multiple of the first gradient's norm; 0 means no clipping
  std::optional<double> poison = {};  // NaN or infinity that is put into one sample of one rank in the last step
  // If true, one sample of one replica is replaced by another sample, under the same id. Only the gradients are judged.
  bool perturbed = false;
  int64_t altered_rank = 1;  // replica of the poisoned or perturbed sample, modulo the number of replicas
  // If true, the loss is scaled until the sum of the ranks' gradients exceeds float16's range but no rank's gradient
  // does.
  bool huge = false;
  bool late = false;               // if true, collectives start late, which detects results read too early
  bool learns = false;             // if true, the loss must fall in the scenario (check loss-falls)
  bool counts_reductions = false;  // if true, the check collective-count counts the reductions of the last step
  bool keep_reductions = false;    // if true, the evidence has the inputs and outputs of the last step's reductions
  bool revealing = false;          // if true, the strategy has options that reveal mistakes, e.g. small buckets
  bool smooth = false;             // if true, the workload uses softplus instead of ReLU
  // Before this step the strategy is destroyed and restored from its reported state; 0: never.
  int64_t reload_before = 0;
  // If true, the strategy takes a step and then loads a state that its own steps did not produce (see other_state.h).
  bool other_state = false;
  bool against_one_device = false;  // if true, the gradient is also compared with that of all samples on one device
  bool evaluates_between = false;   // if true, the model is evaluated after the first step too, not only after the last
  // If true, the steps run as in a timed run: only the loss is read between steps, the strategy's process groups are
  // not wrapped, and the samples come in shuffled epochs. After one of the steps, the other tensors are read too.
  bool unwatched = false;
  bool short_batches = true;  // if true, epochs of the scenario `unwatched` end with a shorter batch
  // Number of the scenario's first step. The strategy object takes the steps 0 to first - 1 beforehand, and load() then
  // restores its initial state. With other_state, these earlier steps are not taken.
  int64_t first = 0;
  Sample sample = {};  // elements of each tensor that are compared; if any are left out, the run has a single step
  int64_t samples_per_rank = 0;  // samples in a rank's micro-batch; 0: Distribution::samples_per_rank
  bool sizes = false;            // if true, probes with large parameters run the scenario even without --long
  bool costly = false;  // if true, only workloads marked as thorough run the scenario without --long or --filter
};

// How samples are distributed: over ranks, or over the replicas of one process.
struct Distribution {
  Parallelism parallelism = Parallelism::ranks;
  int world = 1;  // number of replicas that get different samples
  int64_t samples_per_rank = 4;
  int64_t samples = 0;
  MeshShape mesh = {};       // mesh of the ranks; without axes: one rank per replica
  bool refuses_one = false;  // true if the model refuses to train on a batch of one sample, as torch's BatchNorm1d does

  // Returns the number of processes; 1 if all replicas run in a single process.
  int owners() const { return parallelism != Parallelism::ranks ? 1 : mesh.empty() ? world : ranks_of(mesh); }
  MeshShape mesh_of_ranks() const { return mesh.empty() ? MeshShape{{default_axis, owners()}} : mesh; }
  // replica_of() returns the replica to which a rank belongs. rank_of() returns the first rank of a replica.
  int replica_of(int rank) const { return data_place(mesh, world, rank).replica; }
  int rank_of(int replica) const {
    int rank = 0;
    while (replica_of(rank) != replica) ++rank;
    return rank;
  }
};

// Returns the scenarios for a distribution of samples. working: the dtype of scenarios that are not in float64. costly:
// include slow scenarios. The numbers of micro-batches depend on the seed. On a mesh with an axis that cuts tensors,
// the options that reveal mistakes (Settings::revealing), e.g. tp.verify, are used in all scenarios but two: `working`
// and `clip-working` compare the bytes of collectives with a formula, which does not exist for tp.verify.
std::vector<Scenario> scenarios(const Distribution& distribution, at::ScalarType working, bool costly, uint64_t seed);
// Returns the number of samples of each micro-batch of a rank: 2 to 7, depending on the seed.
int64_t drawn_samples(uint64_t seed);

// True if the oracle computes the scenario's expected results in float64.
inline bool is_exact(const Scenario& scenario) { return scenario.dtype == at::kDouble || scenario.smooth; }

// Returns the names of all checks of a scenario.
std::vector<std::string> checks_of(const Scenario& scenario);

// Returns the number of micro-batches of a step; at most Scenario::accumulate.
int64_t micros_in(const Scenario& scenario, int64_t step);

// Returns the sample ids of each micro-batch of a step for `owner` (a rank, or 0 for one process). The list is empty if
// the owner gets no samples.
std::vector<at::Tensor> ids_of(const Scenario& scenario, const Distribution& distribution, uint64_t seed, int64_t step,
                               int owner);

// True if a replica gets a batch of one sample in some step.
bool gives_one_sample(const Scenario& scenario, const Distribution& distribution, uint64_t seed);

// Returns the ids of the samples that a rank evaluates after a step. Their number depends on the seed. With
// Scenario::evaluates_between, the evaluation after the last step has more samples than a batch of training. alike: all
// ranks evaluate equally many; otherwise the number differs between ranks.
at::Tensor evaluated_ids(const Scenario& scenario, const Distribution& distribution, uint64_t seed, int64_t step,
                         int rank, bool alike);

// Returns the piece sizes of a batch split like torch.chunk: pieces of ceil(samples / replicas) samples and a shorter
// last one. There may be fewer pieces than replicas.
std::vector<int64_t> chunk_sizes(int64_t samples, int replicas);

// Returns the replica (0 for a single process) and the step of the altered sample, which contains a NaN or infinity, or
// is replaced by another one.
std::pair<int, int64_t> altered(const Scenario& scenario, const Distribution& distribution);

}  // namespace dpbench
