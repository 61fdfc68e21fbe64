// Tests that ranks compute while their collectives are in flight: ring attention computes blocks while keys, values and
// gradients travel, and tensor parallelism computes a chunk of a product while earlier chunks are summed over ranks.
// The tests count computations and read no clock.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "strategies/context/ring.h"
#include "strategies/parts/timed.h"
#include "strategies/tensor/exchange.h"
#include "tests/unit/strategies/sharded/sharded_runs.h"
#include "workloads/gpt/kernels.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

// Counts the computations of a rank (attention blocks, chunks of a product), and records when its collectives start and
// are awaited.
struct Record {
  struct InFlight {
    // Number of computations before the collective's start, and before the wait for its end; -1: no wait.
    int begun = 0, awaited = -1;
  };
  int computed = 0;  // number of computations so far
  std::vector<InFlight> collectives = {};

  // Returns the number of computations during each collective, in the order of their starts.
  std::vector<int> computed_during_collectives() const {
    std::vector<int> found;
    for (const InFlight& one : collectives) found.push_back(one.awaited - one.begun);
    return found;
  }
};

class CountedKernel : public AttentionKernel {
 public:
  explicit CountedKernel(Record& record) : record_(record) {}

  at::Tensor whole(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const override {
    return right_->whole(query, key, value);
  }
  Result block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const override {
    ++record_.computed;
    return right_->block(query, key, value, causal);
  }
  Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const Result& all, bool causal) const override {
    ++record_.computed;
    return right_->block_backward(slope, query, key, value, all, causal);
  }

 private:
  Record& record_;
  std::shared_ptr<const AttentionKernel> right_ = gpt::softmax_attention();
};

class RecordedWork : public c10d::Work {
 public:
  RecordedWork(c10::intrusive_ptr<c10d::Work> inner, Record& record)
      : inner_(std::move(inner)), record_(record), number_(record.collectives.size()) {
    record.collectives.push_back({.begun = record.computed});
  }
  bool isCompleted() override { return inner_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    record_.collectives.at(number_).awaited = record_.computed;
    return inner_->wait(timeout);
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  Record& record_;
  size_t number_;
};

class OverlapBackend : public ForwardingBackend {
 public:
  OverlapBackend(c10::intrusive_ptr<c10d::Backend> inner, Record& record)
      : ForwardingBackend(std::move(inner)), record_(record) {}

 protected:
  WorkPtr around(Call call) override { return c10::make_intrusive<RecordedWork>(call.run(), record_); }

 private:
  Record& record_;
};

// Returns the mesh with collectives that are recorded.
Mesh recorded(const Mesh& mesh, Record& record) {
  return mesh.with_groups([&](const std::string&, const auto& group) {
    return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
      return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<OverlapBackend>(inner, record));
    });
  });
}

// Each rank has two pieces of the sequence. It computes 3 blocks with its own keys, and then 2 with those of each other
// rank.
TEST(RingAttention, ComputesWithReceivedKeysWhileTheNextKeysAreTransferred) {
  constexpr int ranks = 3, tokens = 12;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    Record record;
    const Mesh mesh = recorded(me.mesh("cp=3"), record);
    const context::TokenCut cut(tokens, ranks, /*zigzag=*/true);
    const context::Ring ring(mesh.axis("cp"), cut, timed(nullptr, "ring"), /*poison=*/false);
    const CountedKernel kernel(record);
    const at::Tensor x = at::ones({1, 2, tokens / ranks, 5}, at::kDouble);

    const context::Ring::Result whole = ring.forward(x, x, x, kernel);
    // The keys and values make two hops. In each, the rank sends and receives while it computes 3 blocks (first hop) or
    // 2 blocks (second).
    EXPECT_EQ(record.computed_during_collectives(), (std::vector<int>{3, 3, 2, 2})) << "rank " << me.rank;

    record = {};
    ring.backward(whole.output, x, x, x, whole, kernel);
    // Five transfers, each a send and a receive, start in this order: keys and values, gradient, keys and values,
    // gradient, gradient. A gradient travels while the blocks of the next hop are computed. After the last hop, no
    // blocks are left to compute while the last gradient travels.
    EXPECT_EQ(record.computed_during_collectives(), (std::vector<int>{3, 3, 2, 2, 2, 2, 2, 2, 0, 0}))
        << "rank " << me.rank;
  }));
}

// Each rank computes a product in 3 chunks. The sum of the first chunk is in flight while the other two are computed. A
// backward pass is not tested: it sums no product, and with tp.sequence it waits for each gather at once.
TEST(ChunksOfTp, AreComputedWhileTheSumsOfEarlierChunksAreInFlight) {
  constexpr int ranks = 2, chunks = 3, tokens = 4;
  for (const bool sequence : {false, true})
    expect_no_errors(on_ranks(ranks, [&](Rank& me) {
      Record record;
      const Mesh mesh = recorded(me.mesh("tp=2"), record);
      const tensor::Exchange exchange(mesh.axis("tp"), {.sequence = sequence, .chunks = chunks}, tokens, nullptr);
      exchange.leave(at::ones({chunks, tokens, 5}, at::kDouble), [&](const at::Tensor& part) {
        ++record.computed;
        return part * 2;
      });
      EXPECT_EQ(record.computed_during_collectives(), (std::vector<int>{2, 1, 0}))
          << "rank " << me.rank << ", tp.sequence " << sequence;
    }));
}

}  // namespace
}  // namespace dpbench
