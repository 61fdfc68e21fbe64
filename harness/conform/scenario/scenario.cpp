#include "harness/conform/scenario/scenario.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include <ATen/ATen.h>

#include "harness/conform/probes/drawn.h"
#include "harness/report/record/checks.h"
#include "workloads/data/sampler.h"

namespace dpbench {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite_value = std::numeric_limits<double>::infinity();

std::vector<std::string> usual_checks() {
  std::vector<std::string> names;
  for (const CheckMeaning& check : check_table::all)
    if (check.usual) names.emplace_back(check.name);
  return names;
}

std::vector<Scenario> table(at::ScalarType working, uint64_t seed) {
  const int64_t micro = drawn(seed, 1, 2, 5), unwatched = drawn(seed, 3, 1, 3);
  // For a quarter of the seeds, the scenario `accumulate-working` has 6 to 12 micro-batches instead of 2 to 5. For a
  // third of the seeds, the scenario `twenty` begins at a step between 20 and 80; its strategy object takes all earlier
  // steps first.
  const int64_t other = drawn(seed, 13, 0, 3) == 0 ? drawn(seed, 2, 6, 12) : drawn(seed, 2, 2, 5);
  const int64_t later = drawn(seed, 14, 0, 2) == 0 ? drawn(seed, 15, 20, 80) : 0;
  const bool clips = drawn(seed, 17, 0, 1) == 1;  // true: `poison` clips gradients; false: `infinite` does
  // Draws the number of a replica; it is later reduced modulo the number of replicas. 840 is divisible by 1 to 8, so
  // each of up to 8 replicas is equally likely.
  const auto rank = [seed](uint64_t purpose) { return drawn(seed, purpose, 0, 839); };
  return {
      {.name = "even",
       .gradient_check = "gradient-meaning",
       .further_checks = usual_checks(),
       .counts_reductions = true,
       .revealing = true,
       .against_one_device = true,
       .evaluates_between = true},
      {.name = "working",
       .gradient_check = "gradient-replay",
       .further_checks = {"gradient-exact", "reduction", "reduction-agrees", "collective-order", "collective-bytes",
                          "live-parameters", "buffers-replay", "output-replay", "loss-replay", "evaluation-replay"},
       .repeat_checks = {"run-to-run", "world-1-bits"},
       .dtype = working,
       .steps = 4,
       .keep_reductions = true,
       .sizes = true},
      {.name = "uneven", .gradient_check = "gradient-uneven", .split = Split::uneven, .against_one_device = true},
      {.name = "uneven-working",
       .gradient_check = "gradient-uneven-replay",
       .dtype = working,
       .split = Split::uneven,
       .revealing = true},
      {.name = "accumulate",
       .gradient_check = "accumulation",
       .further_checks = {"collective-count", "collective-bytes"},
       .accumulate = micro,
       .counts_reductions = true,
       .revealing = true},
      {.name = "accumulate-working",
       .gradient_check = "accumulation-replay",
       .dtype = working,
       .accumulate = other,
       .varies_micros = true,
       .revealing = true,
       .costly = true},
      {.name = "clip",
       .gradient_check = "clip",
       .further_checks = {"collective-bytes"},
       .clip = 0.5,
       .revealing = true},
      {.name = "clip-working",
       .gradient_check = "clip-replay",
       .further_checks = {"collective-bytes"},
       .dtype = working,
       .accumulate = 2,
       .clip = 0.5,
       .costly = true},
      {.name = "clip-unreached", .gradient_check = "clip", .steps = 1, .clip = 1.7, .costly = true},
      {.name = "twice",
       .gradient_check = "two-backwards",
       .accumulate = 2,
       .steps = 2,
       .same_samples = true,
       .costly = true},
      {.name = "poison",
       .gradient_check = "non-finite",
       .further_checks = {"non-finite-skipped"},
       .dtype = working,
       .accumulate = drawn(seed, 16, 1, 3),
       .clip = clips ? 0.5 : 0,
       .poison = nan_value,
       .altered_rank = rank(12),
       .revealing = true},
      {.name = "infinite",
       .gradient_check = "non-finite",
       .further_checks = {"non-finite-skipped"},
       .dtype = working,
       .accumulate = drawn(seed, 18, 1, 3),
       .steps = 2,
       .clip = clips ? 0 : 0.5,
       .poison = infinite_value,
       .altered_rank = rank(11)},
      {.name = "perturbed",
       .gradient_check = "perturbation",
       .steps = 1,
       .perturbed = true,
       .altered_rank = rank(10),
       .revealing = true},
      {.name = "huge", .gradient_check = "reduction-range", .steps = 1, .huge = true},
      {.name = "late", .gradient_check = "late-collectives", .late = true, .revealing = true, .costly = true},
      {.name = "few", .gradient_check = "empty-shard", .split = Split::few},
      {.name = "reload",
       .gradient_check = "reload-midway",
       .steps = 3,
       .revealing = true,
       .reload_before = drawn(seed, 4, 1, 2),
       .costly = true},
      {.name = "other-state",
       .gradient_check = "load-other-state",
       .steps = 1,
       .revealing = true,
       .other_state = true,
       .first = drawn(seed, 5, 5, 9),
       .costly = true},
      {.name = "smooth", .gradient_check = "gradient-accuracy", .dtype = working, .smooth = true},
      {.name = "twenty",
       .gradient_check = "gradient-later",
       .further_checks = {"loss-falls"},
       .dtype = working,
       .steps = 20,
       .judged_from = 19,
       .same_samples = true,
       .learns = true,
       .revealing = true,
       .first = later,
       .costly = true},
      {.name = "unwatched",
       .gradient_check = "trajectory",
       .further_checks = {"optimizer-state"},
       .accumulate = unwatched,
       .steps = 64,
       .revealing = true,
       .unwatched = true,
       .sizes = true},
      {.name = "uneven-accumulate",
       .gradient_check = "accumulation",
       .split = Split::uneven,
       .accumulate = 3,
       .varies_micros = true,
       .steps = 2,
       .costly = true},
  };
}

// Returns a stride coprime to `samples`. Stepping by it visits every sample once before repeating, and successive
// samples are far apart.
int64_t stride_for(int64_t samples, uint64_t seed) {
  int64_t stride = samples / 2 + 1 + static_cast<int64_t>(seed % 97);
  while (std::gcd(stride, samples) != 1) ++stride;
  return stride;
}

// Returns the split of a step's samples. With Split::few the first step is still even, so that a replica without
// samples in later steps is detected if it reuses state of the first step.
Split split_of(const Scenario& scenario, int64_t step) {
  return scenario.split == Split::few && step == 0 ? Split::even : scenario.split;
}

int64_t samples_of_first(const Scenario& scenario, const Distribution& distribution, int replica, int64_t step) {
  const int64_t samples = distribution.samples_per_rank;
  const Split split = split_of(scenario, step);
  if (distribution.parallelism == Parallelism::ranks) {
    const bool last = replica == distribution.world - 1;
    switch (split) {
      case Split::even:
        return samples;
      case Split::uneven:
        return last ? (samples + 1) / 2 : replica == 0 ? samples + 1 : samples;
      case Split::few:
        return last ? 0 : samples;
    }
  }
  switch (split) {
    case Split::even:
      return samples * distribution.world;
    case Split::uneven:
      return (samples - 1) * distribution.world + 1;
    case Split::few:
      return distribution.world - 1;
  }
  return samples;
}

// Returns the number of samples of a micro-batch. As in real training, the last micro-batch is smaller than the others,
// unless the scenario sets same_samples.
int64_t samples_of(const Scenario& scenario, const Distribution& distribution, int replica, int64_t micro,
                   int64_t step) {
  const int64_t samples = samples_of_first(scenario, distribution, replica, step);
  const int64_t micros = micros_in(scenario, step);
  const bool rest = micros > 1 && micro + 1 == micros && !scenario.same_samples;
  return rest ? (samples + 1) / 2 : samples;
}

int64_t samples_of_all(const Scenario& scenario, const Distribution& distribution, int64_t micro, int64_t step) {
  int64_t total = 0;
  for (int replica = 0; replica < (distribution.parallelism == Parallelism::ranks ? distribution.world : 1); ++replica)
    total += samples_of(scenario, distribution, replica, micro, step);
  return total;
}

struct Epoch {
  int64_t samples, batch;  // samples: of an epoch; batch: samples of a full batch over all ranks

  int64_t steps() const { return (samples + batch - 1) / batch; }
};

Epoch epoch_of(const Scenario& scenario, const Distribution& distribution, uint64_t seed) {
  // smallest batch: one sample per replica and micro-batch
  const int64_t least = distribution.world * scenario.accumulate;
  const int64_t samples = scenario.samples_per_rank > 0 ? scenario.samples_per_rank : distribution.samples_per_rank;
  const int64_t batch = std::min(least * samples, distribution.samples);
  const int64_t full = std::max<int64_t>(1, std::min(scenario.steps / 2, distribution.samples / batch));
  // The last batch of an epoch is shorter by a number that depends on the seed.
  const int64_t spare = full > 1 && scenario.short_batches ? batch - least : 0;
  return {full * batch - (spare > 0 ? 1 + static_cast<int64_t>(seed) % spare : 0), batch};
}

// Returns the sample ids of the scenario `unwatched`: shuffled epochs with a short last batch, assigned to ranks as in
// a timed run. The steps cover two epochs; with a small data set, which lasts for fewer steps, they cover more.
std::vector<at::Tensor> epoch_ids(const Scenario& scenario, const Distribution& distribution, uint64_t seed,
                                  int64_t step, int owner) {
  const Epoch epoch = epoch_of(scenario, distribution, seed);
  const at::Tensor order = epoch_order(epoch.samples, seed, step / epoch.steps(), /*shuffle=*/true);
  const int64_t from = step % epoch.steps() * epoch.batch;
  at::Tensor samples = order.slice(0, from, std::min(from + epoch.batch, epoch.samples));
  if (distribution.parallelism == Parallelism::ranks)
    samples = samples.slice(0, distribution.replica_of(owner), std::nullopt, distribution.world);
  std::vector<at::Tensor> micro;
  for (const at::Tensor& ids : samples.tensor_split(scenario.accumulate, 0)) micro.push_back(ids.contiguous());
  return micro;
}

// True if the scenario compares the bytes of collectives with the strategy's traffic formula. With some of the
// options that reveal mistakes (Settings::revealing), such as tp.verify, a strategy has no formula.
bool judges_bytes(const Scenario& scenario) {
  return std::ranges::count(scenario.further_checks, "collective-bytes") > 0;
}

}  // namespace

int64_t drawn_samples(uint64_t seed) { return drawn(seed, 0, 2, 7); }

std::vector<Scenario> scenarios(const Distribution& distribution, at::ScalarType working, bool costly, uint64_t seed) {
  std::vector<Scenario> chosen;
  for (auto& scenario : table(working, seed)) {
    if (scenario.costly && !costly) continue;
    if (distribution.world == 1 && (scenario.split != Split::even || scenario.huge)) continue;
    if (distribution.owners() == 1 && scenario.late) continue;
    if (distribution.owners() == 1 && distribution.world == 1 && scenario.perturbed) continue;
    if (distribution.samples_per_rank == 1 && scenario.split == Split::uneven) continue;
    if (distribution.world > 1 || distribution.owners() > 1) std::erase(scenario.repeat_checks, "world-1-bits");
    if (size_of(distribution.mesh, &KnownAxis::cuts_tensors) > 1 && !judges_bytes(scenario)) scenario.revealing = true;
    chosen.push_back(std::move(scenario));
  }
  return chosen;
}

std::vector<std::string> checks_of(const Scenario& scenario) {
  std::vector<std::string> names{scenario.gradient_check};
  for (const auto& more : {scenario.further_checks, scenario.repeat_checks})
    names.insert(names.end(), more.begin(), more.end());
  return names;
}

// If the number of micro-batches varies, each step has half as many as the step before, rounded down. After a step with
// one micro-batch, the largest number follows again.
int64_t micros_in(const Scenario& scenario, int64_t step) {
  if (!scenario.varies_micros) return scenario.accumulate;
  return scenario.accumulate >> step % std::bit_width(static_cast<uint64_t>(scenario.accumulate));
}

std::vector<at::Tensor> ids_of(const Scenario& scenario, const Distribution& distribution, uint64_t seed, int64_t step,
                               int owner) {
  if (scenario.unwatched) return epoch_ids(scenario, distribution, seed, step, owner);
  const int replica = distribution.parallelism == Parallelism::ranks ? distribution.replica_of(owner) : 0;
  if (samples_of_first(scenario, distribution, replica, step) == 0) return {};
  const int64_t stride = stride_for(distribution.samples, seed);
  int64_t in_a_step = 0, before = 0;
  for (int64_t k = 0; k < scenario.accumulate; ++k) in_a_step += samples_of_all(scenario, distribution, k, /*step=*/0);
  std::vector<at::Tensor> micro;
  for (int64_t k = 0; k < micros_in(scenario, step); ++k) {
    int64_t start = scenario.same_samples ? 0 : step * in_a_step + before;
    for (int other = 0; other < replica; ++other) start += samples_of(scenario, distribution, other, k, step);
    before += samples_of_all(scenario, distribution, k, step);
    const int64_t mine = samples_of(scenario, distribution, replica, k, step);
    auto ids = at::empty({mine}, at::kLong);
    for (int64_t i = 0; i < mine; ++i)
      ids.data_ptr<int64_t>()[i] = (start + i) % distribution.samples * stride % distribution.samples;
    micro.push_back(ids);
  }
  return micro;
}

bool gives_one_sample(const Scenario& scenario, const Distribution& distribution, uint64_t seed) {
  const int replicas = distribution.parallelism == Parallelism::ranks ? 1 : distribution.world;
  for (int64_t step = 0; step < scenario.steps; ++step)
    for (int owner = 0; owner < distribution.owners(); ++owner)
      for (const at::Tensor& ids : ids_of(scenario, distribution, seed, step, owner))
        if (std::ranges::count(chunk_sizes(ids.numel(), replicas), 1) > 0) return true;
  return false;
}

at::Tensor evaluated_ids(const Scenario& scenario, const Distribution& distribution, uint64_t seed, int64_t step,
                         int rank, bool alike) {
  const int64_t batch = distribution.samples_per_rank * (distribution.owners() == 1 ? distribution.world : 1);
  const bool many = scenario.evaluates_between && step > 0;
  const int64_t count = drawn(seed, 7, 1, many ? batch : 3) + (many ? batch : 0) + (alike ? 0 : rank % 2);
  const int64_t first = static_cast<int64_t>(seed % 1000) * 17 + step * 5 + rank;
  return at::arange(first, first + count).remainder(distribution.samples);
}

std::vector<int64_t> chunk_sizes(int64_t samples, int replicas) {
  const int64_t piece = (samples + replicas - 1) / replicas;
  std::vector<int64_t> sizes;
  for (int64_t left = samples; left > 0; left -= piece) sizes.push_back(std::min(piece, left));
  return sizes;
}

std::pair<int, int64_t> altered(const Scenario& scenario, const Distribution& distribution) {
  const int64_t replica =
      distribution.parallelism == Parallelism::ranks ? scenario.altered_rank % distribution.world : 0;
  return {static_cast<int>(replica), scenario.steps - 1};
}

}  // namespace dpbench
