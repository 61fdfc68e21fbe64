// Checks that the collectives of each step carry exactly the bytes of the strategy's formula.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/StringUtil.h>

#include "harness/conform/judges/judges.h"
#include "strategies/api/traffic.h"

namespace dpbench {
namespace {

using BytesOfOperations = std::map<std::pair<std::string, std::string>, int64_t>;  // bytes by operation and mesh axis

// Bytes that a rank passes to collectives in a step, by the strategy's formula or as counted in the run.
struct Bytes {
  BytesOfOperations own;     // bytes that are compared for each rank
  BytesOfOperations summed;  // bytes that are compared as the sum over all ranks
};

Bytes bytes_of(const std::vector<Traffic>& formula) {
  Bytes bytes;
  for (const Traffic& one : formula)
    if (one.bytes > 0) (one.sum_only ? bytes.summed : bytes.own)[{one.op, one.axis}] += one.bytes;
  return bytes;
}

// due: the formula's bytes. Bytes of operations in due.summed are compared as the sum over all ranks.
Bytes bytes_of(const std::vector<Collective>& called, const Bytes& due) {
  Bytes bytes;
  for (const Collective& one : called) {
    if (one.bytes == 0 || one.by_accessor) continue;
    const std::pair<std::string, std::string> key = {name_of(one.op), one.axis};
    (due.summed.contains(key) ? bytes.summed : bytes.own)[key] += one.bytes;
  }
  return bytes;
}

void add(BytesOfOperations& sum, const BytesOfOperations& more) {
  for (const auto& [key, bytes] : more) sum[key] += bytes;
}

std::string text_of(const BytesOfOperations& bytes) {
  std::string text;
  for (const auto& [key, count] : bytes)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " bytes by " + key.first + " over " + key.second;
  return text.empty() ? "no bytes" : text;
}

// Lists the operations whose bytes differ from the formula's, with the ratio of both.
std::string differences(const BytesOfOperations& due, BytesOfOperations found) {
  std::string text;
  const auto add = [&](const auto& key, const std::string& how) {
    text += (text.empty() ? "" : ", ") + key.first + " over " + key.second + how;
  };
  for (const auto& [key, bytes] : due) {
    const auto other = found.find(key);
    if (other == found.end())
      add(key, " was not called");
    else if (other->second != bytes)
      add(key, " carried " + c10::str(static_cast<double>(other->second) / static_cast<double>(bytes)) +
                   " times the bytes of the formula");
    found.erase(key);
  }
  for (const auto& [key, bytes] : found) add(key, " is not in the formula");
  return text;
}

// Returns the formula's bytes for a rank's step; nullopt if the strategy has no formula for this step.
std::optional<Bytes> bytes_due(const Trial& trial, const Model& model, const Params& params, const Evidence& evidence,
                               int64_t step) {
  int64_t samples = 0;
  for (const at::Tensor& ids : evidence.steps[static_cast<size_t>(step)].ids) samples += ids.numel();
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const auto formula = trial.bench.strategy.traffic({.model = model,
                                                     .dtype = trial.scenario.dtype,
                                                     .params = params,
                                                     .mesh = mesh,
                                                     .rank = evidence.rank,
                                                     .step = step,
                                                     .accumulate = trial.scenario.accumulate,
                                                     .taken = trial.scenario.reload && step >= 2 ? step - 2 : step,
                                                     .clips = trial.clip_norm.has_value(),
                                                     .samples = samples});
  if (!formula) return std::nullopt;
  return bytes_of(*formula);
}

}  // namespace

void judge_traffic(const Trial& trial, Rows& rows) {
  const StrategyInfo& strategy = trial.bench.strategy;
  // A strategy may end a step with a NaN early, without calling its remaining collectives.
  if (!strategy.traffic || trial.scenario.poison) return;
  const char compared[] = "bytes of each collective operation of a step with the strategy's formula";
  if (strategy.recorded) return rows.skipped("collective-bytes", compared, "a replayed step calls no collectives");
  const auto model = first_model(trial.bench);
  const Params params = params_of(trial.bench, trial.scenario);
  bool judged = false;
  const auto judge = [&](const BytesOfOperations& due, const BytesOfOperations& found, const std::string& whose,
                         size_t step) {
    judged = true;
    rows.judged(
        "collective-bytes", compared, found == due,
        [&] {
          return "expected " + text_of(due) + ", found " + text_of(found) + ", " + whose + ", step " +
                 std::to_string(step) + ", scenario " + trial.scenario.name;
        },
        [&] { return differences(due, found); });
  };
  std::map<size_t, BytesOfOperations> all_due, all_found;  // summed over all ranks, indexed by step
  for (const Evidence& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step) {
      const auto due = bytes_due(trial, *model, params, evidence, static_cast<int64_t>(step));
      if (!due) continue;
      const Bytes found = bytes_of(evidence.steps[step].collectives, *due);
      judge(due->own, found.own, "rank " + std::to_string(evidence.rank), step);
      add(all_due[step], due->summed), add(all_found[step], found.summed);
    }
  for (const auto& [step, due] : all_due)
    if (!due.empty()) judge(due, all_found[step], "all ranks together", step);
  if (!judged) rows.skipped("collective-bytes", compared, "the formula leaves out these parameters or steps");
}

}  // namespace dpbench
