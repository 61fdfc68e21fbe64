// Tests that the checkpoint parts stored by the ranks of a layout hold each element of the snapshot exactly once, in
// its place.
#include "tests/unit/strategies/sharded/sharded_runs.h"
#include "workloads/data/safetensors_parts.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

struct Parted {
  std::string strategy, mesh, workload, model = {};
  Given params = {};
};

void PrintTo(const Parted& one, std::ostream* out) { *out << one.strategy << " " << one.mesh << " " << one.workload; }

class StoredParts : public testing::TestWithParam<Parted> {};

TEST_P(StoredParts, OfAllRanksTogetherEqualTheFullSnapshot) {
  const Parted& layout = GetParam();
  const auto workload = workload_registry().at(layout.workload).make({.model = layout.model});
  const int ranks = ranks_of(parse_mesh(layout.mesh));
  std::vector<std::vector<StatePart>> shards(static_cast<size_t>(ranks));
  Snapshot whole;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const auto strategy = made_on(me.mesh(layout.mesh), layout.strategy, *workload, layout.params);
    one_step(*strategy, *workload, data_place(parse_mesh(layout.mesh), ranks, me.rank).replica, 0);
    auto mine = strategy->stored_parts();
    ASSERT_TRUE(mine);
    for (StatePart& one : *mine) one.part.values = one.part.values.clone();
    shards[static_cast<size_t>(me.rank)] = *mine;
    Snapshot found = snapshot_of(*strategy);
    if (me.rank == 0) whole = std::move(found);
  }));
  using Kind = StatePart::Kind;
  for (const auto& [kind, due] :
       {std::pair{Kind::parameter, &whole.parameters}, {Kind::buffer, &whole.buffers}, {Kind::state, &whole.state}})
    for (const auto& [name, tensor] : *due) {
      const at::Tensor found = at::full_like(tensor, -1), count = at::zeros(tensor.sizes(), at::kLong);
      for (const auto& of_rank : shards)
        for (const auto& [its_kind, part] : of_rank) {
          if (its_kind != kind || part.name != name) continue;
          ASSERT_EQ(part.sizes, tensor.sizes().vec()) << name;
          at::Tensor place = found, places = count;
          for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
            const auto first = part.first.at(static_cast<size_t>(dim));
            place = place.narrow(dim, first, part.values.size(dim));
            places = places.narrow(dim, first, part.values.size(dim));
          }
          place.copy_(part.values);
          places.add_(1);
        }
      EXPECT_TRUE(count.eq(1).all().item<bool>()) << name << ": each element once";
      EXPECT_TRUE(found.equal(tensor)) << name;
    }
}

std::vector<Parted> parted() {
  const Given sequence = {{"sequence", "on"}}, interleaved = {{"schedule", "interleaved"}};
  return {{"fsdp", "dp=3", "gpt", "tiny"},
          {"fsdp", "dp=2,shard=2", "gpt", "tiny"},
          {"fsdp", "dp=2,shard=2", "gpt", "tiny", {{"reshard", "shard"}}},
          {"zero2", "dp=3", "gpt", "tiny"},
          {"tp", "dp=2,tp=2", "gpt", "tiny-llama"},
          {"tp", "tp=3", "convnet"},
          {"pp", "pp=3", "gpt", "tiny", interleaved},
          {"cp", "cp=2", "gpt", "tiny"},
          {"fsdp", "dp=5", "probe-large"},
          {"fsdp", "dp=2", "probe-many"},
          {"pp", "pp=2", "probe-tied"},
          {"layout", "shard=2,tp=2", "gpt", "tiny"},
          {"layout", "shard=3,pp=2", "gpt", "tiny-llama"},
          {"layout", "shard=2,cp=2", "gpt", "tiny"},
          {"layout", "cp=2,tp=2", "gpt", "tiny"},
          {"layout", "dp=2,pp=2,tp=2", "gpt", "tiny"},
          {"layout", "dp=2,shard=2,tp=2", "gpt", "tiny"},
          {"ep", "dp=2,ep=2", "gpt", "tiny,experts=5"},
          {"layout", "shard=2,ep=2", "gpt", "tiny,experts=5"},
          {"layout", "pp=2,ep=3", "gpt", "tiny-experts"},
          {"layout", "shard=2,pp=2,ep=2", "gpt", "tiny-experts"},
          {"layout", "shard=2,pp=2,tp=2", "gpt", "tiny", sequence}};
}

INSTANTIATE_TEST_SUITE_P(Layouts, StoredParts, testing::ValuesIn(parted()));

}  // namespace
}  // namespace dpbench
