// The bytes that a forward pass of cp keeps for its backward pass, against the formula of a layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <ATen/ATen.h>

#include "strategies/context/exchange.h"
#include "strategies/parts/replica.h"
#include "tests/unit/strategies/counting_allocator.h"
#include "tests/unit/strategies/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

constexpr int64_t samples = 2, tokens = 32, hidden = 64;

// Returns the bytes in use when the threads that carry messages have let go of them.
int64_t settled_bytes() {
  int64_t least = CountingAllocator::in_use();
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    least = std::min(least, CountingAllocator::in_use());
  }
  return least;
}

// Returns the bytes that a rank keeps after a forward pass.
int64_t kept(int64_t layers, int ranks, context::Kind kind) {
  const auto workload = workload_registry().at("gpt").make(
      {.model = "layers=" + std::to_string(layers) + ",hidden=64,heads=4,mlp=256,seq=32,vocab=128"});
  const CountingAllocator allocator;
  int64_t bytes = 0;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const Axis axis = me.mesh("cp=" + std::to_string(ranks)).axis("cp");
    const Replica replica(*workload, at::kCPU, at::kFloat, 1, 1);
    ModelSplit split;
    if (ranks > 1)
      split.sequence = std::make_shared<context::Exchange>(axis, context::Options{.kind = kind}, tokens, nullptr);
    const Batch batch = workload->batch(at::arange(samples));
    me.group->barrier()->wait();
    const int64_t before = CountingAllocator::in_use();
    me.group->barrier()->wait();
    const at::Tensor output = replica.forward(0, batch, split);
    me.group->barrier()->wait();
    if (me.rank == 0) bytes = settled_bytes() - before;
    me.group->barrier()->wait();
  }));
  return bytes / ranks;
}

// A layer keeps, in units of samples x tokens x hidden: input and output of both norms, query, key, value, attention's
// output, input and output of GELU (4 each). Each rank keeps those of its own tokens. Ulysses keeps attention's output
// twice: by heads, and by tokens.
TEST(ActivationsOfCp, FallWithTheNumberOfRanks) {
  for (const auto kind : {context::Kind::ring, context::Kind::ulysses})
    for (const int ranks : {1, 2, 4}) {
      const double activations = kind == context::Kind::ulysses && ranks > 1 ? 17 : 16;
      const auto found = static_cast<double>(kept(3, ranks, kind) - kept(2, ranks, kind));
      EXPECT_NEAR(found / (activations / ranks * samples * tokens * hidden * sizeof(float)), 1, 0.03) << ranks;
    }
}

}  // namespace
}  // namespace dpbench
