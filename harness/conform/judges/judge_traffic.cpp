// Checks that the collectives of each step carry exactly the bytes of the strategy's formula, in as many calls. Also
// checks that each operation of a forward pass can combine its activations, given their distribution over ranks (see
// activation.h).
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/StringUtil.h>

#include "harness/conform/judges/judges.h"
#include "strategies/api/parts/block_runs.h"
#include "strategies/api/traffic.h"

namespace dpbench {
namespace {

// Bytes and number of calls of a collective operation. calls: nullopt if the traffic formula gives none.
struct Amount {
  int64_t bytes = 0;
  std::optional<int64_t> calls = 0;

  void add(const Amount& more) {
    bytes += more.bytes;
    calls = calls && more.calls ? std::optional(*calls + *more.calls) : std::nullopt;
  }
  bool operator==(const Amount&) const = default;
};

// Amounts of each collective operation on each mesh axis.
using Operations = std::map<std::pair<std::string, std::string>, Amount>;

// Bytes and calls of a rank's collectives in a step, by the strategy's formula or as counted in the run.
struct Amounts {
  Operations own;                               // operations whose amounts are compared on each rank
  Operations summed;                            // operations whose amounts are summed over all ranks and then compared
  std::set<Operations::key_type> unknown = {};  // operations that are not compared
};

Amounts amounts_of(const std::vector<Traffic>& formula) {
  Amounts amounts;
  for (const Traffic& one : formula)
    if (one.unknown)
      amounts.unknown.emplace(one.op, one.axis);
    else if (one.bytes > 0)
      (one.sum_only ? amounts.summed : amounts.own)[{one.op, one.axis}].add({one.bytes, one.calls});
  return amounts;
}

// Returns bytes and calls of the collectives that a rank called, by operation. due: the amounts by the strategy's
// traffic formula. Operations in due.summed are returned in `summed`, because they are compared as a sum over all
// ranks. Calls are counted only for operations with a number of calls in `due`.
Amounts amounts_of(const std::vector<Collective>& called, const Amounts& due) {
  Amounts amounts;
  for (const Collective& one : called) {
    if (one.bytes == 0 || one.by_accessor) continue;
    const Operations::key_type key = {name_of(one.op), one.axis};
    if (due.unknown.contains(key)) continue;
    const bool sums = due.summed.contains(key);
    const Operations& of_formula = sums ? due.summed : due.own;
    const auto expected = of_formula.find(key);
    const bool counts = expected != of_formula.end() && expected->second.calls;
    (sums ? amounts.summed : amounts.own)[key].add({one.bytes, counts ? std::optional<int64_t>(1) : std::nullopt});
  }
  return amounts;
}

void add(Operations& sum, const Operations& more) {
  for (const auto& [key, amount] : more) sum[key].add(amount);
}

std::string text_of(const Operations& operations) {
  std::string text;
  for (const auto& [key, amount] : operations)
    text += (text.empty() ? "" : ", ") + std::to_string(amount.bytes) + " bytes" +
            (amount.calls ? " in " + std::to_string(*amount.calls) + " calls" : "") + " by " + key.first + " over " +
            key.second;
  return text.empty() ? "no bytes" : text;
}

// Lists the operations that differ from the traffic formula, with the ratio of the bytes or, if the bytes are equal,
// both numbers of calls.
std::string differences(const Operations& due, Operations found) {
  std::string text;
  const auto add = [&](const auto& key, const std::string& how) {
    text += (text.empty() ? "" : ", ") + key.first + " over " + key.second + how;
  };
  for (const auto& [key, amount] : due) {
    const auto other = found.find(key);
    if (other == found.end())
      add(key, " was not called");
    else if (other->second.bytes != amount.bytes)
      add(key, " carried " + c10::str(static_cast<double>(other->second.bytes) / static_cast<double>(amount.bytes)) +
                   " times the bytes of the formula");
    else if (other->second.calls != amount.calls)
      add(key, " carried the bytes of the formula in " + std::to_string(*other->second.calls) + " calls instead of " +
                   std::to_string(*amount.calls));
    found.erase(key);
  }
  for (const auto& [key, amount] : found) add(key, " is not in the formula");
  return text;
}

using BlockRuns = decltype(TrafficQuery::block_runs);

std::vector<int64_t> samples_of(const std::vector<at::Tensor>& ids) {
  std::vector<int64_t> samples;
  for (const at::Tensor& one : ids) samples.push_back(one.numel());
  return samples;
}

// Returns the sizes of all micro-batches that a rank's strategy object has taken before a step, in samples.
// constructed: the first step of the scenario that this object took; above 0 if it replaced an earlier object. extra:
// number of steps that the object took before the scenario's first step, each with as many samples as step 1.
std::vector<int64_t> samples_before(const Trial& trial, const Evidence& evidence, int64_t step, int64_t constructed,
                                    int64_t extra) {
  const std::vector<int64_t> of_extra =
      samples_of(ids_of(trial.scenario, trial.bench.distribution, trial.bench.seed, 1, evidence.rank));
  std::vector<int64_t> all;
  for (int64_t k = 0; k < extra; ++k) all.insert(all.end(), of_extra.begin(), of_extra.end());
  for (int64_t before = constructed; before < step; ++before)
    for (const int64_t samples : samples_of(evidence.steps[static_cast<size_t>(before)].ids)) all.push_back(samples);
  return all;
}

// Returns the amounts by the traffic formula for a rank's step; nullopt if the strategy has no formula for this step.
std::optional<Amounts> amounts_due(const Trial& trial, const Model& model, const BlockRuns& block_runs,
                                   const Params& params, const Evidence& evidence, int64_t step) {
  const std::vector<int64_t> micro = samples_of(evidence.steps[static_cast<size_t>(step)].ids);
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const int64_t reloaded = trial.scenario.reload_before, constructed = step >= reloaded ? reloaded : 0;
  const int64_t extra = constructed == 0 ? evidence.steps_before : 0;
  const auto formula =
      trial.bench.strategy.traffic({.model = model,
                                    .dtype = trial.scenario.dtype,
                                    .params = params,
                                    .mesh = mesh,
                                    .rank = evidence.rank,
                                    .step = trial.scenario.first + step,
                                    .accumulate = micros_in(trial.scenario, step),
                                    .taken = extra + step - constructed,
                                    .clips = trial.clip_norm.has_value(),
                                    .samples = std::accumulate(micro.begin(), micro.end(), int64_t{0}),
                                    .micro = micro,
                                    .earlier = samples_before(trial, evidence, step, constructed, extra),
                                    .block_runs = block_runs});
  if (!formula) return std::nullopt;
  return amounts_of(*formula);
}

}  // namespace

void judge_traffic(const Trial& trial, Rows& rows) {
  const StrategyInfo& strategy = trial.bench.strategy;
  // In a step with a NaN, a strategy may return early, without calling its remaining collectives, so they are not
  // compared with its formula.
  if (!strategy.traffic || trial.scenario.poison) return;
  const char compared[] = "bytes and calls of each collective operation of a step with the strategy's formula";
  if (strategy.recorded) return rows.skipped("collective-bytes", compared, "a replayed step calls no collectives");
  const auto model = first_model(trial.bench);
  const BlockRuns block_runs =
      runs_at_first_call(trial.bench.workload, trial.scenario.dtype, trial.bench.devices.at(0));
  const Params params = params_of(trial.bench, trial.scenario);
  bool judged = false;
  const auto judge = [&](const Operations& due, const Operations& found, const std::string& whose, size_t step) {
    judged = true;
    rows.judged(
        "collective-bytes", compared, found == due,
        [&] {
          return "expected " + text_of(due) + ", found " + text_of(found) + ", " + whose +
                 trial.place(static_cast<int64_t>(step));
        },
        [&] { return differences(due, found); });
  };
  std::map<size_t, Operations> all_due, all_found;  // bytes and calls of all ranks together, by step
  for (const Evidence& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step) {
      const auto due = amounts_due(trial, *model, block_runs, params, evidence, static_cast<int64_t>(step));
      if (!due) continue;
      const Amounts found = amounts_of(evidence.steps[step].collectives, *due);
      judge(due->own, found.own, "rank " + std::to_string(evidence.rank), step);
      add(all_due[step], due->summed), add(all_found[step], found.summed);
    }
  for (const auto& [step, due] : all_due)
    if (!due.empty()) judge(due, all_found[step], "all ranks together", step);
  if (!judged) rows.skipped("collective-bytes", compared, "the formula leaves out these parameters or steps");
}

void judge_types(const Trial& trial, Rows& rows) {
  for (const Evidence& evidence : trial.ranks)
    if (evidence.typed > 0)
      rows.judged(
          "activation-types", "how the tensors of each operation of a forward pass are distributed over ranks",
          evidence.wrong_type.empty(),
          evidence.wrong_type + ", rank " + std::to_string(evidence.rank) + ", scenario " + trial.scenario.name);
}

}  // namespace dpbench
