#include "harness/worker/measure/ledger.h"

#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "strategies/api/parts/block_runs.h"

namespace dpbench {

Formula formula_of(const CaseSpec& spec, const Setup& setup, int rank, int64_t first,
                   const std::vector<std::vector<int64_t>>& micro) {
  const StrategyInfo info = promised(strategy_registry().at(spec.strategy), setup.params);
  if (!info.traffic) return std::nullopt;
  const auto model = setup.workload.model(setup.init_seed);
  const MeshShape mesh = setup.mesh.shape();
  // On the CPU, because a GPU may lack memory for another model.
  const auto block_runs = runs_at_first_call(setup.workload, setup.dtype, at::kCPU);
  std::vector<Traffic> all;
  std::vector<int64_t> earlier;
  for (size_t i = 0; i < micro.size(); earlier.insert(earlier.end(), micro[i].begin(), micro[i].end()), ++i) {
    const auto step = static_cast<int64_t>(i);
    if (step < first) continue;
    const auto one = info.traffic({.model = *model,
                                   .dtype = setup.dtype,
                                   .params = setup.params,
                                   .mesh = mesh,
                                   .rank = rank,
                                   .step = step,
                                   .accumulate = setup.accumulate,
                                   .taken = step,
                                   .clips = setup.clip_norm.has_value(),
                                   .samples = std::accumulate(micro[i].begin(), micro[i].end(), int64_t{0}),
                                   .micro = micro[i],
                                   .earlier = earlier,
                                   .block_runs = block_runs});
    if (!one) return std::nullopt;
    all.insert(all.end(), one->begin(), one->end());
  }
  return all;
}

std::vector<LedgerEntry> ledger_of(const std::deque<CollectiveLog::Call>& calls, const Formula& formula,
                                   int64_t steps) {
  std::map<std::pair<std::string, std::string>, LedgerEntry> entries;
  const auto entry_of = [&](const std::string& axis, const std::string& op) -> LedgerEntry& {
    LedgerEntry& entry = entries[{axis, op}];
    entry.axis = axis, entry.op = op;
    if (formula && !entry.formula_bytes) entry.formula_bytes = entry.formula_calls = 0;
    return entry;
  };
  for (const CollectiveLog::Call& one : calls) {
    LedgerEntry& entry = entry_of(one.axis, one.op);
    const auto bytes = static_cast<double>(one.bytes);
    const std::string phase(one.phase < 0 ? "none" : phase_names[static_cast<size_t>(one.phase)]);
    entry.calls += 1, entry.bytes += bytes, entry.phase_bytes[phase] += bytes;
  }
  if (formula) {
    for (const Traffic& one : *formula) {
      if (one.bytes == 0) continue;
      LedgerEntry& entry = entry_of(one.axis, one.op);
      *entry.formula_bytes += static_cast<double>(one.bytes);
      if (!one.calls) entry.formula_calls.reset();
      if (entry.formula_calls) *entry.formula_calls += static_cast<double>(*one.calls);
    }
    for (const Traffic& one : *formula)
      if (const auto found = entries.find({one.axis, one.op}); one.unknown && found != entries.end())
        found->second.formula_bytes.reset(), found->second.formula_calls.reset();
  }
  const auto count = static_cast<double>(steps);
  std::vector<LedgerEntry> all;
  for (auto& [key, entry] : entries) {
    entry.calls /= count, entry.bytes /= count;
    for (auto& [phase, bytes] : entry.phase_bytes) bytes /= count;
    if (entry.formula_bytes) *entry.formula_bytes /= count;
    if (entry.formula_calls) *entry.formula_calls /= count;
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace dpbench
