// Checks that the collectives of each step carry exactly the bytes of the strategy's formula, in as many calls.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/StringUtil.h>

#include "harness/conform/judges/judges.h"
#include "strategies/api/traffic.h"

namespace dpbench {
namespace {

// Bytes and calls of an operation. calls: nullopt if the formula has no number of calls.
struct Amount {
  int64_t bytes = 0;
  std::optional<int64_t> calls = 0;

  void add(const Amount& more) {
    bytes += more.bytes;
    calls = calls && more.calls ? std::optional(*calls + *more.calls) : std::nullopt;
  }
  bool operator==(const Amount&) const = default;
};

using Operations = std::map<std::pair<std::string, std::string>, Amount>;  // key: operation and mesh axis

// What a rank passes to collectives in a step, by the strategy's formula or as counted in the run.
struct Amounts {
  Operations own;     // amounts that are compared for each rank
  Operations summed;  // amounts that are compared as their sum over all ranks
};

Amounts amounts_of(const std::vector<Traffic>& formula) {
  Amounts amounts;
  for (const Traffic& one : formula)
    if (one.bytes > 0) (one.sum_only ? amounts.summed : amounts.own)[{one.op, one.axis}].add({one.bytes, one.calls});
  return amounts;
}

// due: the formula's amounts. Operations in due.summed are compared as the sum over all ranks, and calls are counted
// only where `due` has their number.
Amounts amounts_of(const std::vector<Collective>& called, const Amounts& due) {
  Amounts amounts;
  for (const Collective& one : called) {
    if (one.bytes == 0 || one.by_accessor) continue;
    const std::pair<std::string, std::string> key = {name_of(one.op), one.axis};
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

// Lists the operations that differ from the formula: by how many times the bytes, or by the number of calls.
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

// Returns the formula's amounts for a rank's step; nullopt if the strategy has no formula for this step.
std::optional<Amounts> amounts_due(const Trial& trial, const Model& model, const Params& params,
                                   const Evidence& evidence, int64_t step) {
  int64_t samples = 0;
  for (const at::Tensor& ids : evidence.steps[static_cast<size_t>(step)].ids) samples += ids.numel();
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const int64_t reloaded = trial.scenario.reload_before;
  const auto formula = trial.bench.strategy.traffic({.model = model,
                                                     .dtype = trial.scenario.dtype,
                                                     .params = params,
                                                     .mesh = mesh,
                                                     .rank = evidence.rank,
                                                     .step = step,
                                                     .accumulate = micros_in(trial.scenario, step),
                                                     .taken = step - (step >= reloaded ? reloaded : 0),
                                                     .clips = trial.clip_norm.has_value(),
                                                     .samples = samples});
  if (!formula) return std::nullopt;
  return amounts_of(*formula);
}

}  // namespace

void judge_traffic(const Trial& trial, Rows& rows) {
  const StrategyInfo& strategy = trial.bench.strategy;
  // A strategy may end a step with a NaN early, without calling its remaining collectives.
  if (!strategy.traffic || trial.scenario.poison) return;
  const char compared[] = "bytes and calls of each collective operation of a step with the strategy's formula";
  if (strategy.recorded) return rows.skipped("collective-bytes", compared, "a replayed step calls no collectives");
  const auto model = first_model(trial.bench);
  const Params params = params_of(trial.bench, trial.scenario);
  bool judged = false;
  const auto judge = [&](const Operations& due, const Operations& found, const std::string& whose, size_t step) {
    judged = true;
    rows.judged(
        "collective-bytes", compared, found == due,
        [&] {
          return "expected " + text_of(due) + ", found " + text_of(found) + ", " + whose + ", step " +
                 std::to_string(step) + ", scenario " + trial.scenario.name;
        },
        [&] { return differences(due, found); });
  };
  std::map<size_t, Operations> all_due, all_found;  // summed over all ranks, indexed by step
  for (const Evidence& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step) {
      const auto due = amounts_due(trial, *model, params, evidence, static_cast<int64_t>(step));
      if (!due) continue;
      const Amounts found = amounts_of(evidence.steps[step].collectives, *due);
      judge(due->own, found.own, "rank " + std::to_string(evidence.rank), step);
      add(all_due[step], due->summed), add(all_found[step], found.summed);
    }
  for (const auto& [step, due] : all_due)
    if (!due.empty()) judge(due, all_found[step], "all ranks together", step);
  if (!judged) rows.skipped("collective-bytes", compared, "the formula leaves out these parameters or steps");
}

}  // namespace dpbench
