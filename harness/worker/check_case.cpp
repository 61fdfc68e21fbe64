#include "harness/worker/check_case.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/conform/exchange.h"
#include "harness/conform/suite.h"
#include "harness/worker/dump.h"
#include "harness/worker/run_case.h"

namespace dpbench {
namespace {

std::string own_exception(const Evidence& evidence, const Scenario& scenario) {
  if (evidence.error.empty() || evidence.refused || evidence.echo) return "";
  return evidence.error.substr(0, evidence.error.find('\n')) + " (in the checks: scenario " + scenario.name + ", step " +
         std::to_string(evidence.steps.size()) + ")";
}

}  // namespace

CheckedCase check_case(const CaseSpec& spec, const CheckOptions& options, const Group& group,
                       const std::string& shared_dir) {
  const StrategyInfo& strategy = strategy_registry().at(spec.strategy);
  const bool ranks = strategy.parallelism == Parallelism::ranks;
  static int calls = 0;  // the same on every rank: each call has keys of its own
  const std::string prefix = "check" + std::to_string(calls++);
  const WorkloadOptions workload{.scale = spec.scale, .data_dir = spec.data_dir, .shared_dir = shared_dir};
  Rows rows;  // one for each check: the worst of all seeds
  std::optional<Dump> dump;
  if (!options.dump.empty()) dump.emplace(options.dump, spec, group.rank());
  std::string threw;
  const auto see = [&](const Bench& bench, const Scenario& scenario, const Evidence& evidence) {
    if (dump) dump->add(bench, scenario, evidence);
    if (threw.empty()) threw = own_exception(evidence, scenario);
  };
  for (int seed = 0; seed < options.seeds; ++seed) {
    c10::intrusive_ptr<c10d::Store> store;
    if (ranks) store = c10::make_intrusive<c10d::PrefixStore>(prefix + "." + std::to_string(seed), group.store());
    const CheckRequest request{strategy, workload_registry().at(spec.workload), workload, group.rank(), spec.world, store,
                               group.process_group(), group.devices(ranks ? 1 : spec.world, spec.oversubscribe),
                               dtype_of(spec.dtype), spec.params, spec.seed + static_cast<uint64_t>(seed),
                               spec.world <= options.whole_worlds, options.filter, see};
    for (const CheckRow& row : run_checks(request)) rows.add(row);
  }
  if (dump) dump->finish();
  const CheckRow* completed = rows.find("run-completes");
  bool whole = !completed || completed->status != "failed";
  if (ranks && spec.world > 1) whole = from_rank0(*group.store(), prefix + ".end", group.rank(), whole ? "whole" : "broken") == "whole";
  return {rows.all(), whole, threw};
}

}  // namespace dpbench
