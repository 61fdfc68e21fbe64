// The bytes that a forward pass of tp keeps for its backward pass, against the formula of a layer.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "strategies/parts/replica.h"
#include "strategies/tensor/exchange.h"
#include "strategies/tensor/tensors.h"
#include "tests/unit/strategies/counting_allocator.h"
#include "tests/unit/strategies/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

constexpr int64_t samples = 2, tokens = 32, hidden = 64;

// Returns the bytes that a rank keeps after a forward pass.
int64_t kept(int64_t layers, int ranks, bool sequence) {
  const auto workload = workload_registry().at("gpt").make(
      {.model = "layers=" + std::to_string(layers) + ",hidden=64,heads=4,mlp=256,seq=32,vocab=128"});
  const CountingAllocator allocator;
  int64_t bytes = 0;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const Axis axis = me.mesh("tp=" + std::to_string(ranks)).axis("tp");
    const Replica replica(*workload, at::kCPU, at::kFloat, 1, 1);
    const tensor::Options options{.sequence = sequence};
    ModelSplit split;
    if (ranks > 1) {
      tensor::CutTensors(replica.shared_model()->tensor_plan(ranks), axis).cut(*replica.shared_model());
      split.tensor = std::make_shared<tensor::Exchange>(axis, options, tokens, nullptr);
    }
    const Batch batch = workload->batch(at::arange(samples));
    me.group->barrier()->wait();
    const int64_t before = CountingAllocator::in_use();
    me.group->barrier()->wait();
    const at::Tensor output = replica.forward(0, batch, split);
    me.group->barrier()->wait();
    if (me.rank == 0) bytes = CountingAllocator::in_use() - before;
    me.group->barrier()->wait();
  }));
  return bytes / ranks;
}

// Bytes of one layer: whole activations count once, divided ones and pieces of the sequence 1 / ranks.
int64_t kept_by_layer(int ranks, bool sequence) { return kept(3, ranks, sequence) - kept(2, ranks, sequence); }

TEST(ActivationsOfTp, AreThoseOfTheFormula) {
  const auto activations = [](double count) { return count * samples * tokens * hidden * sizeof(float); };
  // Whole, in units of samples x tokens x hidden: input and output of both norms. Divided: query, key and value,
  // attention's output, input and output of GELU (4 each).
  const double whole = 4, divided = 12;
  for (const int ranks : {1, 2, 4}) {
    const double due = activations(whole + divided / ranks);
    EXPECT_NEAR(static_cast<double>(kept_by_layer(ranks, false)) / due, 1, 0.03) << ranks;
  }
  // The inputs of the norms are pieces of the sequence; their outputs are kept whole, as gathered for the products.
  for (const int ranks : {2, 4}) {
    const double due = activations(2 + (2 + divided) / ranks);
    EXPECT_NEAR(static_cast<double>(kept_by_layer(ranks, true)) / due, 1, 0.03) << ranks;
  }
}

}  // namespace
}  // namespace dpbench
