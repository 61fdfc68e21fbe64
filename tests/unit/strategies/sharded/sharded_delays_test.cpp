// Tests that random delays of ranks and collectives change no bit of the results of zero2 and fsdp. A buffer reused too
// early, or a result read before it is complete, would change them.
#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

std::string text_of(const Given& params) {
  std::string text;
  for (const auto& [name, value] : params) text += " " + name + "=" + value;
  return text;
}

struct Place {
  std::string workload;
  int world;
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.workload << ' ' << place.world; }

class RandomDelays : public testing::TestWithParam<Place> {
 protected:
  RandomDelays() : workload_(workload_registry().at(GetParam().workload).make({.model = model()})) {}

  static std::string model() { return workload_registry().at(GetParam().workload).models.for_checks; }

  void expect_no_change(const Training& usual, const std::vector<Given>& alternatives) {
    const Outcome due = trained(usual, *workload_);
    uint64_t seed = 1;
    for (const Given& params : alternatives) {
      Training late = usual;
      late.params = params;
      late.delays = seed++;
      expect_same_bits(due, trained(late, *workload_), late.strategy + text_of(params));
    }
  }

  std::unique_ptr<Workload> workload_;
};

std::vector<Given> of_fsdp() {
  std::vector<Given> all;
  for (const char* reshard : {"on", "off"})
    for (const char* prefetch : {"0", "1", "2"}) {
      const bool odd = all.size() % 2 == 1;
      all.push_back(
          {{"reshard", reshard}, {"prefetch", prefetch}, {"unit", odd ? "2" : "1"}, {"poison", odd ? "off" : "on"}});
    }
  return all;
}

TEST_P(RandomDelays, ChangeNoBitOfFsdp) {
  expect_no_change({.strategy = "fsdp", .world = GetParam().world}, of_fsdp());
}

TEST_P(RandomDelays, ChangeNoBitOfZero2) {
  expect_no_change({.strategy = "zero2", .world = GetParam().world}, {{}, {{"unit", "2"}}, {{"unit", "100"}}});
}

INSTANTIATE_TEST_SUITE_P(Sharded, RandomDelays,
                         testing::Values(Place{"gpt", 2}, Place{"gpt", 3}, Place{"gpt", 5}, Place{"convnet", 2},
                                         Place{"convnet", 3}),
                         [](const auto& one) { return one.param.workload + std::to_string(one.param.world); });

class RandomDelaysOnAMesh : public RandomDelays {};

TEST_P(RandomDelaysOnAMesh, ChangeNoBitOfHybridShardedTraining) {
  const Training usual{.strategy = "fsdp", .world = 4, .mesh = "dp=2,shard=2"};
  expect_no_change(usual, {{}, {{"prefetch", "0"}}, {{"prefetch", "2"}, {"poison", "on"}}, {{"reshard", "off"}}});
  expect_no_change({.strategy = "zero2", .world = 4, .mesh = usual.mesh}, {{}});
}

TEST_P(RandomDelaysOnAMesh, ChangeNoBitOfHybridShardedTrainingIfParametersAreReshardedWithinPairsOfRanks) {
  const Training usual{.strategy = "fsdp", .world = 8, .mesh = "dp=2,shard=4"};
  expect_no_change(usual, {{{"reshard", "2"}, {"prefetch", "0"}, {"poison", "on"}},
                           {{"reshard", "2"}},
                           {{"reshard", "2"}, {"prefetch", "2"}, {"poison", "on"}}});
}

// With reshard=shard and with reshard=2, all four ranks shard the parameters, as fsdp does without a mesh. So the sums
// have the same bits.
TEST_P(RandomDelaysOnAMesh, ChangeNoBitIfParametersAreReshardedWithinGroupsOfRanks) {
  const Outcome due = trained({.strategy = "fsdp", .world = 4}, *workload_);
  uint64_t seed = 1;
  for (const char* prefetch : {"0", "1", "2"})
    for (const char* poison : {"off", "on"}) {
      Training late{.strategy = "fsdp",
                    .world = 4,
                    .params = {{"reshard", "shard"}, {"prefetch", prefetch}, {"poison", poison}},
                    .mesh = "dp=2,shard=2",
                    .delays = seed++};
      expect_same_bits(due, trained(late, *workload_), text_of(late.params));
      late.params["reshard"] = "2", late.mesh = "";
      expect_same_bits(due, trained(late, *workload_), text_of(late.params));
    }
}

INSTANTIATE_TEST_SUITE_P(Sharded, RandomDelaysOnAMesh, testing::Values(Place{"gpt", 4}, Place{"convnet", 4}),
                         [](const auto& one) { return one.param.workload; });

}  // namespace
}  // namespace dpbench
