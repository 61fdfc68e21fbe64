// Tests random layouts of `dpbench check --layouts`: which layouts are drawn, how a failing layout is simplified, and
// the combinations of axes that `check` adds.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "harness/front/plan/check_rows.h"
#include "harness/front/plan/layouts.h"
#include "tests/unit/front/plan_parts.h"

namespace dpbench {
namespace {

using namespace test;

Catalogue with_layouts() {
  Catalogue all = catalogue();
  all.strategies[3].axes = {"dp"};
  all.strategies.push_back(strategy("grid", Parallelism::ranks, true, false));
  all.strategies.back().axes = {"pp", "dp", "tp"};
  all.strategies.back().params = {{"schedule", "1f1b", "", "1f1b|gpipe"},
                                  {"parts", "1", "", "integer"},
                                  {"verify", "off", "", "on|off|integer"},
                                  {"blocks", "even", "", ""}};
  all.workloads.push_back({.name = "blocks", .summary = "", .batch = 4, .models = {"small"}});
  all.workloads.back().drawn_sizes = {
      {"layers=1", "layers=2", "layers=4"}, {"heads=2,hidden=8", "heads=3,hidden=9"}, {"tied=off", "tied=on"}};
  return all;
}

Selection of_grid(const Catalogue& all) {
  Selection what;
  what.strategies = {"grid"};
  what.workloads = {all.workloads.back().name};
  what.baseline = false;
  what.check = CheckSelection{};
  return what;
}

std::vector<CaseSpec> drawn(int64_t count, uint64_t seed) {
  const Catalogue all = with_layouts();
  Selection what = of_grid(all);
  what.check->layouts = count;
  what.seed = seed;
  return make_plan(what, all, machine(4)).cases;
}

TEST(Layouts, DefaultToTheStrategyWithMostAxesAndAWorkloadWithRandomModelSizes) {
  Selection what, named = of_grid(with_layouts());
  what.check.emplace();
  name_layouts(what, with_layouts());
  EXPECT_EQ(what.strategies, std::vector<std::string>{"grid"});
  EXPECT_EQ(what.workloads, std::vector<std::string>{"blocks"});
  named.strategies = {"ddp"};
  named.workloads = {"mnist-mlp"};
  name_layouts(named, with_layouts());
  EXPECT_EQ(named.strategies, std::vector<std::string>{"ddp"});
  EXPECT_EQ(named.workloads, std::vector<std::string>{"mnist-mlp"});
  Selection all = of_grid(with_layouts());
  all.strategies.clear();
  all.check->names_strategies = false;
  name_layouts(all, with_layouts());
  EXPECT_EQ(all.strategies, std::vector<std::string>{}) << "--strategy all";
}

TEST(Layouts, AreTheSameForTheSameSeedAndDifferForAnother) {
  const auto ids_of = [](const std::vector<CaseSpec>& cases) {
    std::vector<std::string> all;
    for (const CaseSpec& one : cases) all.push_back(one.id);
    return all;
  };
  EXPECT_EQ(ids_of(drawn(50, 7)), ids_of(drawn(50, 7)));
  EXPECT_NE(ids_of(drawn(50, 7)), ids_of(drawn(50, 8)));
}

TEST(Layouts, DrawnAtRandomHave2To8RanksAndVaryInMeshModelDtypeAndParameters) {
  std::set<std::string> meshes, values, models;
  std::set<Dtype> dtypes;
  for (const CaseSpec& one : drawn(300, 3)) {
    const MeshShape mesh = parse_mesh(one.mesh);
    EXPECT_EQ(one.mesh.empty() ? one.world : ranks_of(mesh), one.world) << one.id;
    EXPECT_GE(one.world, 2);
    EXPECT_LE(one.world, 8);
    EXPECT_EQ(one.params.count("blocks"), 0u) << "any text is allowed, so none can be drawn";
    meshes.insert(one.mesh);
    models.insert(one.model);
    dtypes.insert(one.dtype);
    for (const auto& [name, value] : one.params) values.insert(name + "=" + value);
  }
  for (const char* mesh : {"", "pp=2", "pp=3", "tp=2,dp=2,pp=2", "dp=2,tp=4"})
    EXPECT_EQ(meshes.count(mesh), 1u) << mesh;
  EXPECT_EQ(models.size(), 12u);
  EXPECT_EQ(dtypes, (std::set<Dtype>{Dtype::f32, Dtype::bf16}));
  EXPECT_EQ(values, (std::set<std::string>{"schedule=gpipe", "parts=2", "parts=3", "verify=on"}));
}

// Replaces a failing layout by a simpler one that fails too, until no simpler one fails. Returns the last layout.
CaseSpec shrunk(CaseSpec spec, const std::function<bool(const CaseSpec&)>& fails) {
  const Catalogue all = with_layouts();
  for (bool found = true; found;) {
    const auto simpler = simpler_layouts(spec, all.workloads.back());
    const auto next = std::ranges::find_if(simpler, fails);
    found = next != simpler.end();
    if (found) spec = *next;
  }
  return spec;
}

TEST(Layouts, ThatFailAreShrunkToTheSmallestThatStillFails) {
  const auto fails = [](const CaseSpec& one) {
    const MeshShape mesh = parse_mesh(one.mesh);
    return size_of(mesh, "pp") > 1 && size_of(mesh, "tp") > 1 && one.model.find("tied=on") != std::string::npos;
  };
  CaseSpec spec;
  spec.strategy = "grid", spec.workload = "blocks", spec.world = 8;
  spec.mesh = "dp=2,tp=2,pp=2";
  spec.model = "layers=4,heads=3,hidden=9,tied=on";
  spec.params = {{"parts", "3"}, {"schedule", "gpipe"}};
  spec.recompute = 2;
  spec.dtype = Dtype::bf16;
  spec.backend = "gloo";
  spec.seed = 5;
  const CaseSpec smallest = shrunk(spec, fails);
  EXPECT_EQ(repeating_command(smallest),
            "dpbench check --short --strategy grid --workload blocks --mesh tp=2,pp=2 --model "
            "layers=1,heads=2,hidden=8,tied=on "
            "--backend gloo --seed 5");
  EXPECT_EQ(smallest.processes, 4);
}

TEST(Layouts, ThatAlwaysFailAreShrunkToTwoRanks) {
  CaseSpec spec;
  spec.strategy = "grid", spec.workload = "blocks", spec.world = 8;
  spec.mesh = "dp=2,tp=4";
  spec.params = {{"parts", "3"}};
  spec.recompute = 1;
  EXPECT_EQ(repeating_command(shrunk(spec, [](const CaseSpec&) { return true; })),
            "dpbench check --short --strategy grid --workload blocks --mesh tp=2 --backend none --seed 1");
  spec.params["parts"] = "2";
  const CaseSpec kept = shrunk(spec, [](const CaseSpec& one) { return one.params.contains("parts"); });
  expect_contains(repeating_command(kept), {"--param grid.parts=2"});
  spec.dtype = Dtype::bf16;
  const CaseSpec narrow = shrunk(spec, [](const CaseSpec& one) { return one.dtype == Dtype::bf16; });
  expect_contains(repeating_command(narrow), {"--dtype bf16"});
}

TEST(Layouts, AboutOneInEightDrawnAtRandomRunsTheCostlyScenarios) {
  const std::vector<CaseSpec> all = drawn(300, 3);
  const auto costly = std::ranges::count_if(all, runs_costly_scenarios);
  EXPECT_GT(costly, std::ssize(all) / 16);
  EXPECT_LT(costly, std::ssize(all) / 4);
  CaseSpec one = all[0];
  int other_seeds = 0;
  for (one.seed = 1; one.seed <= 100; ++one.seed) other_seeds += runs_costly_scenarios(one);
  EXPECT_GT(other_seeds, 0) << "the seed chooses too";
  EXPECT_LT(other_seeds, 100);
  EXPECT_EQ(repeating_command(all[0], /*costly=*/true).find("--short"), std::string::npos);
}

TEST(Layouts, OfTwoOrThreeAxesAreAddedToTheCasesOfDpbenchCheck) {
  const Catalogue all = with_layouts();
  const auto meshes = [&](int products) {
    Selection what = of_grid(all);
    what.check->products = products;
    std::set<std::string> found;
    for (const CaseSpec& one : make_plan(what, all, machine(4)).cases)
      if (parse_mesh(one.mesh).size() > 1) found.insert(one.mesh);
    return found;
  };
  EXPECT_EQ(meshes(0), std::set<std::string>{});
  EXPECT_EQ(meshes(2), (std::set<std::string>{"pp=2,dp=2", "pp=2,tp=2", "dp=2,tp=2"}));
  EXPECT_EQ(meshes(3), (std::set<std::string>{"pp=2,dp=2", "pp=2,tp=2", "dp=2,tp=2", "pp=2,dp=2,tp=2"}));
}

TEST(Layouts, OfTwoAxesRunOnOneDrawnStrategyEachIfDpbenchCheckDrawsCases) {
  Catalogue all = with_layouts();
  all.strategies.push_back(strategy("pair", Parallelism::ranks, true, false));
  all.strategies.back().axes = {"pp", "dp"};
  Selection what = of_grid(all);
  what.strategies.clear();
  what.check->products = 2;
  what.check->draws_cases = true;
  std::set<std::string> strategies;
  for (what.seed = 1; what.seed <= 20; ++what.seed) {
    std::multiset<std::string> meshes;
    for (const CaseSpec& one : make_plan(what, all, machine(4)).cases) {
      if (parse_mesh(one.mesh).size() < 2) continue;
      meshes.insert(one.mesh);
      if (one.mesh == "pp=2,dp=2") strategies.insert(one.strategy);
    }
    EXPECT_EQ(meshes, (std::multiset<std::string>{"pp=2,dp=2", "pp=2,tp=2", "dp=2,tp=2"}));
  }
  EXPECT_EQ(strategies, (std::set<std::string>{"grid", "pair"}));
}

TEST(Layouts, ThatDivideExpertsAreAddedToDpbenchCheckWithAModelThatHasExperts) {
  Catalogue all = with_layouts();
  all.strategies.back().axes = {"dp", "ep", "pp", "tp"};
  all.workloads.back().check_model = "small";
  all.workloads.back().drawn_sizes.push_back({"experts=0", "experts=5,top_k=2", "experts=3,top_k=1"});
  const auto models = [&](const std::string& named) {
    Selection what = of_grid(all);
    what.check->products = 2;
    what.model = named;
    std::map<std::string, std::string> found;
    for (const CaseSpec& one : make_plan(what, all, machine(4)).cases)
      if (parse_mesh(one.mesh).size() > 1) found[one.mesh] = one.model;
    return found;
  };
  EXPECT_EQ(models(""), (std::map<std::string, std::string>{{"dp=2,ep=2", "small,experts=5,top_k=2"},
                                                            {"ep=2,pp=2", "small,experts=5,top_k=2"},
                                                            {"dp=2,pp=2", "small"},
                                                            {"dp=2,tp=2", "small"},
                                                            {"pp=2,tp=2", "small"}}));
  EXPECT_EQ(models("large").count("dp=2,ep=2"), 0u) << "a named model may have no experts";
}

TEST(Plan, CheckThatDrawsCasesRunsExpertParallelismOnWorkloadsWithExpertsAlone) {
  Catalogue all = with_layouts();
  all.strategies.push_back(strategy("of-experts", Parallelism::ranks, true, false));
  all.strategies.back().axes = {"ep", "dp"};
  all.workloads.back().check_model = "small";
  all.workloads.back().experts = true;
  all.workloads.back().drawn_sizes.push_back({"experts=0", "experts=5,top_k=2", "experts=3,top_k=1"});
  all.workloads.push_back({.name = "probe-experts", .summary = "", .batch = 4, .probe = true, .experts = true});
  Selection what;
  what.default_worlds = {1, 2, 3, 7};
  what.check = CheckSelection{.draws_worlds = true, .draws_cases = true};
  what.baseline = false;
  const std::string experts = "small,experts=5,top_k=2";
  std::map<std::string, std::set<std::string>> models;
  for (what.seed = 1; what.seed <= 20; ++what.seed) {
    std::multiset<std::string> places;
    for (const CaseSpec& one : make_plan(what, all, machine(8)).cases) {
      if (one.strategy != "of-experts") continue;
      places.insert(one.workload + " " + std::to_string(one.world));
      models[one.workload + " " + one.mesh].insert(one.model);
    }
    ASSERT_EQ(places.size(), 6u) << what.seed;
    for (const char* each : {"blocks 2", "blocks 3", "probe-experts 2", "probe-experts 3"})
      EXPECT_EQ(places.count(each), 1u) << each;
  }
  EXPECT_EQ(models["blocks ep=2"], std::set<std::string>{experts});
  EXPECT_EQ(models["blocks ep=3"], std::set<std::string>{experts});
  EXPECT_EQ(models["blocks ep=7"], std::set<std::string>{"small"}) << "no model has 7 experts";
  EXPECT_EQ(models["blocks "], std::set<std::string>{"small"}) << "a world of 1";
  EXPECT_EQ(models["probe-experts ep=3"], std::set<std::string>{""});
}

TEST(Plan, AMeshThatAStrategyCannotUseIsRefusedNamingAStrategyThatCan) {
  const Catalogue all = with_layouts();
  Selection what = of_grid(all);
  what.check.reset();
  what.strategies = {"ddp"};
  what.meshes = {"dp=2,tp=2"};
  expect_contains(refusal<UsageError>(what, machine(4), all), {"dp=2,tp=2", "ddp: dp", "--strategy grid"});
  what.strategies = {"ddp", "grid"};
  const Plan plan = make_plan(what, all, machine(4));
  ASSERT_EQ(plan.skipped.size(), 1u);
  expect_contains(plan.skipped[0].reason, {"'ddp'", "axis tp", "--strategy grid"});
}

TEST(Plan, AGivenMeshOfTheAxisDpAloneIsKeptEvenIfTheStrategysFirstAxisIsAnother) {
  const Catalogue all = with_layouts();
  Selection what = of_grid(all);
  what.cpus = {2};
  EXPECT_EQ(make_plan(what, all, machine(4)).cases.at(0).mesh, "pp=2");
  what.meshes = {"dp=2"};
  EXPECT_EQ(make_plan(what, all, machine(4)).cases.at(0).mesh, "");
}

}  // namespace
}  // namespace dpbench
