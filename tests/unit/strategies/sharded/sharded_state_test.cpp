// Loads a snapshot of each sharded strategy, of layouts and of ddp into others, also with another number of ranks.
// Training then continues as if it had not been interrupted.
#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

// number of samples in a step: a multiple of every number of ranks in layouts()
constexpr int64_t samples_of_a_step = 12;

std::vector<Training> layouts() {
  std::vector<Training> all;
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp"})
    for (const int world : {2, 3}) all.push_back({.strategy = strategy, .world = world});
  for (const char* strategy : {"zero2", "fsdp"})
    all.push_back({.strategy = strategy, .world = 4, .mesh = "dp=2,shard=2"});
  all.push_back({.strategy = "fsdp", .world = 4, .params = {{"reshard", "shard"}}, .mesh = "dp=2,shard=2"});
  all.push_back({.strategy = "fsdp", .world = 4, .params = {{"reshard", "2"}}});
  return all;
}

// Returns strategies that divide a replica between ranks, and ddp.
std::vector<Training> divided() {
  return {{.strategy = "ddp"},
          {.strategy = "layout", .world = 4, .mesh = "pp=2,tp=2"},
          {.strategy = "layout", .world = 4, .mesh = "shard=2,pp=2"},
          {.strategy = "layout", .world = 4, .mesh = "cp=2,tp=2"},
          {.strategy = "layout", .world = 8, .mesh = "shard=2,pp=2,tp=2"},
          {.strategy = "layout", .world = 8, .mesh = "dp=2,shard=2,tp=2"},
          {.strategy = "tp", .world = 3, .mesh = "tp=3"},
          {.strategy = "pp", .world = 3, .params = {{"schedule", "zb-h1"}}, .mesh = "pp=3"}};
}

// Returns strategies that divide experts between ranks, and ddp.
std::vector<Training> dividing_experts() {
  return {{.strategy = "ddp"},
          {.strategy = "ep", .world = 3, .mesh = "ep=3"},
          {.strategy = "layout", .world = 4, .mesh = "dp=2,ep=2"},
          {.strategy = "layout", .world = 4, .mesh = "pp=2,ep=2"},
          {.strategy = "layout", .world = 8, .mesh = "shard=2,pp=2,ep=2"}};
}

std::string name_of(const Training& layout) {
  std::string name = layout.strategy + ", world " + std::to_string(layout.world);
  for (const auto& [param, value] : layout.params) name += ", " + param + "=" + value;
  return name + (layout.mesh.empty() ? "" : ", " + layout.mesh);
}

// Takes a step of `micros` micro-batches. Its samples are the same in every world.
void take_step(Strategy& strategy, const Workload& workload, const Training& layout, const Rank& me, int64_t step,
               int64_t micros) {
  const MeshShape mesh = layout.mesh.empty() ? MeshShape() : parse_mesh(layout.mesh);
  const auto place = data_place(mesh, me.world, me.rank);
  const at::Tensor mine = at::arange(place.replica, samples_of_a_step, place.replicas) + step * samples_of_a_step;
  std::vector<Batch> micro;
  for (const at::Tensor& part : mine.remainder(workload.samples()).chunk(micros)) micro.push_back(workload.batch(part));
  Phases phases;
  strategy.step(step, micro, phases);
}

// Trains from step `first` to step `end` - 1, from a snapshot if there is one, and returns rank 0's snapshot.
Snapshot continued(const Training& layout, const Workload& workload, int64_t first, int64_t end,
                   const std::optional<Snapshot>& from = {}, int64_t micros = 1) {
  Snapshot last;
  const auto errors = on_ranks(layout.world, [&](Rank& me) {
    const auto strategy = made_on(mesh_of(layout, me), layout.strategy, workload, layout.params, at::kDouble);
    if (from) strategy->load(*from);
    for (int64_t step = first; step < end; ++step) take_step(*strategy, workload, layout, me, step, micros);
    const Snapshot whole = snapshot_of(*strategy);
    if (me.rank == 0) last = {copies(whole.parameters), copies(whole.buffers), copies(whole.state)};
  });
  for (const auto& error : errors) EXPECT_EQ(error, "") << name_of(layout);
  return last;
}

std::string first_far(const NamedTensors& due, const NamedTensors& found) {
  for (const auto& [name, tensor] : due) {
    const at::Tensor* other = find(found, name);
    if (!other) return name + " is missing";
    if (!other->allclose(tensor, 1e-9, 1e-11)) return name;
  }
  return due.size() == found.size() ? "" : "another number of tensors";
}

// Returns the name of the first tensor that differs; empty if all are equal.
using Difference = std::string (*)(const NamedTensors& due, const NamedTensors& found);

// Expects that a snapshot of each layout resumes under every layout like an uninterrupted run.
void expect_to_resume_under_each_other(const std::vector<Training>& all, const Workload& workload,
                                       Difference difference, int64_t micros = 1) {
  const Snapshot uninterrupted = continued(all[0], workload, 0, 4, {}, micros);
  ASSERT_FALSE(uninterrupted.state.empty());
  for (const Training& saving : all) {
    const Snapshot saved = continued(saving, workload, 0, 2, {}, micros);
    for (const Training& loading : all) {
      const Snapshot found = continued(loading, workload, 2, 4, saved, micros);
      const std::string which = "saved by " + name_of(saving) + ", loaded by " + name_of(loading);
      EXPECT_EQ(difference(uninterrupted.parameters, found.parameters), "") << which;
      EXPECT_EQ(difference(uninterrupted.state, found.state), "") << which;
    }
  }
}

void expect_to_resume_with_the_same_bits(const std::vector<Training>& all, const Workload& workload) {
  for (const Training& layout : all) expect_to_resume_under_each_other({layout}, workload, first_difference);
}

class SavedState : public testing::TestWithParam<const char*> {};

TEST_P(SavedState, OfDdpZeroAndFsdpResumesUnderAnyOfTheseStrategies) {
  expect_to_resume_under_each_other(layouts(), *gpt(GetParam()), first_far);
}

TEST_P(SavedState, OfDdpZeroAndFsdpResumesUnderTheSameStrategyWithTheSameBits) {
  expect_to_resume_with_the_same_bits(layouts(), *gpt(GetParam()));
}

TEST_P(SavedState, OfReplicasDividedAmongRanksResumesUnderOtherLayouts) {
  expect_to_resume_under_each_other(divided(), *gpt(GetParam()), first_far);
}

TEST_P(SavedState, OfReplicasDividedAmongRanksResumesUnderTheSameLayoutWithTheSameBits) {
  expect_to_resume_with_the_same_bits(divided(), *gpt(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Sharded, SavedState,
                         testing::Values("tiny,padding=off", "tiny-llama,padding=off,optimizer=momentum"),
                         [](const auto& one) {
                           return std::string(one.param).starts_with("tiny,") ? "Adam" : "Momentum";
                         });

// Gradients do not depend on the number of replicas, because the model has no balance loss (balance=0).
constexpr const char* with_experts = "tiny-experts,padding=off,balance=0";

TEST(SavedStateOfExperts, ResumesUnderOtherLayouts) {
  expect_to_resume_under_each_other(dividing_experts(), *gpt(with_experts), first_far);
}

TEST(SavedStateOfExperts, ResumesUnderTheSameLayoutWithTheSameBits) {
  expect_to_resume_with_the_same_bits(dividing_experts(), *gpt(with_experts));
}

// Half of each parameter fills whole SIMD vectors. The optimizer's kernels may round elements that do not fill a vector
// differently, so with other sizes the bits could depend on how parameters are cut.
constexpr const char* whole_vectors = "style=llama,layers=2,hidden=32,heads=2,mlp=64,seq=8,vocab=128,tied=off";

TEST(LayoutsThatAddGradientsInOneOrder, WithTwoReplicasResumeEachOthersStateWithTheSameBits) {
  expect_to_resume_under_each_other({{.strategy = "ddp"},
                                     {.strategy = "zero2"},
                                     {.strategy = "fsdp"},
                                     {.strategy = "layout", .mesh = "dp=2,tp=1"},
                                     {.strategy = "layout", .mesh = "shard=2"},
                                     {.strategy = "layout", .world = 4, .mesh = "dp=2,pp=2"},
                                     {.strategy = "layout", .world = 4, .mesh = "pp=2,shard=2"}},
                                    *gpt(whole_vectors), first_difference);
}

// A stage adds the gradients of the micro-batches in ascending order, as one device does, so the bits are the same.
TEST(LayoutsThatAddGradientsInOneOrder, WithStagesOrOneDeviceResumeEachOthersStateWithTheSameBits) {
  expect_to_resume_under_each_other({{.strategy = "ddp", .world = 1},
                                     {.strategy = "pp", .mesh = "pp=2"},
                                     {.strategy = "pp", .world = 3, .params = {{"schedule", "zb-h1"}}, .mesh = "pp=3"},
                                     {.strategy = "layout", .params = {{"schedule", "interleaved"}}, .mesh = "pp=2"}},
                                    *gpt(whole_vectors), first_difference, /*micros=*/4);
}

TEST(LayoutsThatAddGradientsInOneOrder, WithSwappedAxesResumeEachOthersStateWithTheSameBits) {
  for (const auto& [mesh, swapped] : {std::pair{"dp=2,tp=2", "tp=2,dp=2"}, {"shard=2,cp=2", "cp=2,shard=2"}})
    expect_to_resume_under_each_other(
        {{.strategy = "layout", .world = 4, .mesh = mesh}, {.strategy = "layout", .world = 4, .mesh = swapped}},
        *gpt(whole_vectors), first_difference);
}

}  // namespace
}  // namespace dpbench
