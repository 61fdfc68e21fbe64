// Compares the bytes that a forward pass of tp and cp keeps for its backward pass with the formulas for a layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>

#include "strategies/api/parts/replica.h"
#include "strategies/context/exchange.h"
#include "strategies/tensor/exchange.h"
#include "strategies/tensor/tensors.h"
#include "tests/unit/strategies/sharded/sharded_runs.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

// Replaces LibTorch's allocator of CPU tensors while an object of this class exists. Counts the bytes in use by all
// threads.
class CountingAllocator {
 public:
  CountingAllocator() { c10::SetAllocator(at::kCPU, &counting()); }
  ~CountingAllocator() { c10::SetAllocator(at::kCPU, counting().inner); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  static int64_t in_use() { return bytes_; }

 private:
  struct Counting : public c10::Allocator {
    c10::DataPtr allocate(size_t size) override {
      auto block = std::make_unique<Block>(inner->allocate(size), static_cast<int64_t>(size));
      void* data = block->data.get();
      return {data, block.release(), [](void* context) { delete static_cast<Block*>(context); }, at::kCPU};
    }
    void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }

    c10::Allocator* inner = c10::GetAllocator(at::kCPU);
  };
  struct Block {
    Block(c10::DataPtr its_data, int64_t its_size) : data(std::move(its_data)), size(its_size) { bytes_ += size; }
    ~Block() { bytes_ -= size; }
    c10::DataPtr data;
    int64_t size;
  };
  // This allocator is never destroyed, because tensors that outlive a test keep a pointer to it.
  static Counting& counting() {
    static auto* const one = new Counting;
    return *one;
  }

  static inline std::atomic<int64_t> bytes_ = 0;
};

constexpr int64_t samples = 2, tokens = 32, hidden = 64;

// Returns the bytes in use after the communication threads have released their tensors.
int64_t settled_bytes() {
  int64_t least = CountingAllocator::in_use();
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    least = std::min(least, CountingAllocator::in_use());
  }
  return least;
}

// Divides a model among the ranks of an axis. Returns the ModelSplit, through which this rank exchanges activations.
using Divide = std::function<ModelSplit(const Axis& axis, const Model& model)>;

// Returns the bytes of activations that a rank keeps after a forward pass, mean over ranks.
int64_t kept(int64_t layers, const std::string& name, int ranks, const Divide& divide) {
  const auto workload = workload_registry().at("gpt").make(
      {.model = "layers=" + std::to_string(layers) + ",hidden=64,heads=4,mlp=256,seq=32,vocab=128"});
  const CountingAllocator allocator;
  int64_t bytes = 0;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const Axis axis = me.mesh(name + "=" + std::to_string(ranks)).axis(name);
    const Replica replica(*workload, at::kCPU, at::kFloat, 1, 1);
    const ModelSplit split = ranks > 1 ? divide(axis, *replica.shared_model()) : ModelSplit();
    const Batch batch = workload->batch(at::arange(samples));
    me.meet();
    const int64_t before = CountingAllocator::in_use();
    me.meet();
    const at::Tensor output = replica.forward(0, batch, split);
    me.meet();
    if (me.rank == 0) bytes = settled_bytes() - before;
    me.meet();
  }));
  return bytes / ranks;
}

// Returns the activations that a rank keeps for one layer, in units of samples x tokens x hidden.
double kept_by_layer(const std::string& axis, int ranks, const Divide& divide) {
  const int64_t bytes = kept(3, axis, ranks, divide) - kept(2, axis, ranks, divide);
  return static_cast<double>(bytes) / (samples * tokens * hidden * sizeof(float));
}

Divide by_layers(bool sequence) {
  return [sequence](const Axis& axis, const Model& model) {
    tensor::CutTensors(model.tensor_plan(axis.size), axis).cut(model);
    const tensor::Options options{.sequence = sequence};
    return ModelSplit{.tensor = std::make_shared<tensor::Exchange>(axis, options, tokens, nullptr)};
  };
}

Divide by_tokens(context::Kind kind) {
  return [kind](const Axis& axis, const Model&) {
    const context::Options options{.kind = kind};
    return ModelSplit{.sequence = std::make_shared<context::Exchange>(axis, options, tokens, nullptr)};
  };
}

// A rank keeps activations of all features and tokens (whole), and 1 / ranks of activations that are cut by features
// or, with sequence parallelism, by tokens (divided).
TEST(ActivationsOfTp, TakeTheBytesThatTheFormulaGivesPerLayer) {
  // Whole activations, in units of samples x tokens x hidden: input and output of both norms. Divided activations:
  // query, key and value, attention's output, input and output of GELU (4 each).
  const double whole = 4, divided = 12;
  for (const int ranks : {1, 2, 4}) {
    const double due = whole + divided / ranks;
    EXPECT_NEAR(kept_by_layer("tp", ranks, by_layers(false)), due, 0.03 * due) << ranks;
  }
  // With sequence parallelism, the inputs of the norms are pieces of the sequence. The outputs of the norms are kept
  // whole, as gathered for the matrix products.
  for (const int ranks : {2, 4}) {
    const double due = 2 + (2 + divided) / ranks;
    EXPECT_NEAR(kept_by_layer("tp", ranks, by_layers(true)), due, 0.03 * due) << ranks;
  }
}

// A layer keeps, in units of samples x tokens x hidden: input and output of both norms, query, key, value, attention's
// output, input and output of GELU (4 each). Each rank keeps those of its own tokens. Ulysses keeps attention's output
// twice: by heads, and by tokens.
TEST(ActivationsOfCp, TakeBytesInverselyProportionalToTheNumberOfRanks) {
  for (const auto kind : {context::Kind::ring, context::Kind::ulysses})
    for (const int ranks : {1, 2, 4}) {
      const double activations = kind == context::Kind::ulysses && ranks > 1 ? 17 : 16;
      EXPECT_NEAR(kept_by_layer("cp", ranks, by_tokens(kind)), activations / ranks, 0.03 * activations / ranks)
          << ranks;
    }
}

}  // namespace
}  // namespace dpbench
