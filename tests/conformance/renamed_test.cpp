// The suite chooses checks by a strategy's registered properties, not its name: a renamed strategy gets the same
// checks.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/ranks/threads.h"

namespace dpbench {
namespace {

ParamValues renamed(const ParamValues& values) {
  ParamValues others;
  for (const auto& [name, value] : values) others["own_" + name] = value;
  return others;
}

Params original(const StrategyInfo& info_of_original, const Params& params) {
  ParamValues values;
  for (const ParamInfo& param : info_of_original.params) values[param.name] = params.text("own_" + param.name);
  return {info_of_original.params, values, info_of_original.name};
}

// Wraps a strategy's traffic or memory formula so that it reads the renamed parameters.
template <class Formula>
Formula renamed(const StrategyInfo& info_of_original, const Formula& formula) {
  if (!formula) return formula;
  return [info_of_original, formula](const TrafficQuery& query) {
    const Params own = original(info_of_original, query.params);
    return formula({.model = query.model,
                    .dtype = query.dtype,
                    .params = own,
                    .mesh = query.mesh,
                    .rank = query.rank,
                    .step = query.step,
                    .accumulate = query.accumulate,
                    .taken = query.taken,
                    .clips = query.clips,
                    .samples = query.samples,
                    .micro = query.micro,
                    .earlier = query.earlier,
                    .block_runs = query.block_runs});
  };
}

StrategyInfo renamed(const StrategyInfo& info_of_original) {
  StrategyInfo info = info_of_original;
  info.name = "stranger";
  for (ParamInfo& param : info.params) param.name = "own_" + param.name;
  Settings& settings = info.settings;
  for (ParamValues* values : {&settings.revealing, &settings.allow_unused, &settings.allow_no_samples,
                              &settings.short_interval, &settings.unrecorded})
    *values = renamed(*values);
  info.promise = [info_of_original](StrategyInfo& promises, const Params& params) {
    info_of_original.promise(promises, original(info_of_original, params));
  };
  if (info.mesh_for)
    info.mesh_for = [info_of_original](const MeshShape& asked, const Params& params) {
      return info_of_original.mesh_for(asked, original(info_of_original, params));
    };
  info.traffic = renamed(info_of_original, info_of_original.traffic);
  info.live_parameters = renamed(info_of_original, info_of_original.live_parameters);
  info.make = [info_of_original](const Setup& setup) {
    Setup own = setup;
    own.params = original(info_of_original, setup.params);
    return info_of_original.make(own);
  };
  return info;
}

class CountingBackend : public ForwardingBackend {
 public:
  CountingBackend(c10::intrusive_ptr<c10d::Backend> inner, std::atomic<int64_t>& calls)
      : ForwardingBackend(std::move(inner)), calls_(calls) {}

 protected:
  WorkPtr around(Call call) override {
    ++calls_;
    return call.run();
  }

 private:
  std::atomic<int64_t>& calls_;
};

// Returns "name status" of each check, then the number of collectives. The number shows whether the suite used smaller
// buckets.
std::vector<std::string> checked(const StrategyInfo& strategy, const std::string& workload, const ParamValues& params) {
  std::atomic<int64_t> calls = 0;
  const Wrap count = [&](c10::intrusive_ptr<c10d::Backend> inner) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<CountingBackend>(std::move(inner), calls);
  };
  std::vector<std::string> seen;
  for (const CheckRow& row : check_in_threads({.strategy = strategy,
                                               .workload = workload_registry().at(workload),
                                               .params = params,
                                               .long_form = true,
                                               .unwatched_s = 1e6,
                                               .wrap = count}))
    seen.push_back(row.name + " " + row.status);
  seen.push_back(std::to_string(calls) + " collectives");
  return seen;
}

struct RenamedCase {
  std::string strategy, workload;
  ParamValues params = {};
};

TEST(RenamedStrategy, GetsTheSameChecksAsTheOriginal) {
  for (const RenamedCase& test_case : {RenamedCase{"ddp", "probe-mlp-sgd"},
                                       {"ddp", "probe-branch"},
                                       {"ddp", "probe-unused"},
                                       {"ddp", "probe-branch", {{"find_unused", "off"}}},
                                       {"fsdp", "probe-mlp-sgd"},
                                       {"local-sgd", "probe-mlp"}}) {
    const StrategyInfo& info_of_original = strategy_registry().at(test_case.strategy);
    const auto seen = checked(info_of_original, test_case.workload, test_case.params);
    EXPECT_GT(seen.size(), test_case.params.empty() ? 20U : 1U) << test_case.strategy << " on " << test_case.workload;
    const auto others = checked(renamed(info_of_original), test_case.workload, renamed(test_case.params));
    ASSERT_EQ(others.size(), seen.size()) << test_case.strategy << " on " << test_case.workload;
    for (size_t i = 0; i < seen.size(); ++i)
      EXPECT_EQ(others[i], seen[i]) << test_case.strategy << " on " << test_case.workload;
  }
}

TEST(RenamedStrategy, GetsDifferentChecksIfTheSettingsForChecksAreRemovedFromItsRegistration) {
  struct Setting {
    ParamValues Settings::* values;
    RenamedCase of;
  };
  for (const auto& [values, of] : {Setting{&Settings::revealing, {"ddp", "probe-mlp-sgd"}},
                                   {&Settings::allow_unused, {"ddp", "probe-branch"}},
                                   {&Settings::allow_no_samples, {"ddp", "probe-mlp-sgd"}},
                                   {&Settings::short_interval, {"local-sgd", "probe-mlp"}}}) {
    StrategyInfo less = renamed(strategy_registry().at(of.strategy));
    (less.settings.*values).clear();
    EXPECT_NE(checked(less, of.workload, {}), checked(renamed(strategy_registry().at(of.strategy)), of.workload, {}))
        << of.strategy << " on " << of.workload;
  }
}

}  // namespace
}  // namespace dpbench
