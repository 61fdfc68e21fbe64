// Tests that ring attention computes while keys, values and gradients travel: it starts a transfer before blocks of
// attention and waits for it after them. The test counts blocks and reads no clock.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "strategies/context/ring.h"
#include "strategies/parts/timed.h"
#include "tests/unit/strategies/sharded/sharded_runs.h"
#include "workloads/gpt/kernels.h"

namespace dpbench {
namespace {

using namespace sharded_runs;

// Counts the attention blocks that a rank computes, and records when its transfers start and are awaited.
struct Record {
  struct Transfer {
    // Number of attention blocks that were computed before the transfer's start, and before the wait for the transfer's
    // end; -1: no wait.
    int begun = 0, awaited = -1;
  };
  int blocks = 0;  // computed so far
  std::vector<Transfer> transfers = {};

  // Returns the number of blocks computed during each send and receive, in the order of their starts.
  std::vector<int> blocks_during_transfers() const {
    std::vector<int> found;
    for (const Transfer& one : transfers) found.push_back(one.awaited - one.begun);
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
    ++record_.blocks;
    return right_->block(query, key, value, causal);
  }
  Gradients block_backward(const at::Tensor& slope, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const Result& all, bool causal) const override {
    ++record_.blocks;
    return right_->block_backward(slope, query, key, value, all, causal);
  }

 private:
  Record& record_;
  std::shared_ptr<const AttentionKernel> right_ = gpt::softmax_attention();
};

class RecordedWork : public c10d::Work {
 public:
  RecordedWork(c10::intrusive_ptr<c10d::Work> inner, Record& record)
      : inner_(std::move(inner)), record_(record), number_(record.transfers.size()) {
    record.transfers.push_back({.begun = record.blocks});
  }
  bool isCompleted() override { return inner_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    record_.transfers.at(number_).awaited = record_.blocks;
    return inner_->wait(timeout);
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  Record& record_;
  size_t number_;
};

class RecordingTransfers : public ForwardingBackend {
 public:
  RecordingTransfers(c10::intrusive_ptr<c10d::Backend> inner, Record& record)
      : ForwardingBackend(std::move(inner)), record_(record) {}

 protected:
  WorkPtr around(Call call) override { return c10::make_intrusive<RecordedWork>(call.run(), record_); }

 private:
  Record& record_;
};

// Each rank has two pieces of the sequence. It computes 3 blocks with its own keys, and then 2 with those of each other
// rank.
TEST(RingAttention, ComputesWithReceivedKeysWhileTheNextKeysAreTransferred) {
  constexpr int ranks = 3, tokens = 12;
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    Record record;
    const Mesh mesh = me.mesh("cp=3").with_groups([&](const std::string&, const auto& group) {
      return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<RecordingTransfers>(inner, record));
      });
    });
    const context::TokenCut cut(tokens, ranks, /*zigzag=*/true);
    const context::Ring ring(mesh.axis("cp"), cut, timed(nullptr, "ring"), /*poison=*/false);
    const CountedKernel kernel(record);
    const at::Tensor x = at::ones({1, 2, tokens / ranks, 5}, at::kDouble);

    const context::Ring::Result whole = ring.forward(x, x, x, kernel);
    // The keys and values make two hops. In each, the rank sends and receives while it computes 3 blocks (first hop) or
    // 2 blocks (second).
    EXPECT_EQ(record.blocks_during_transfers(), (std::vector<int>{3, 3, 2, 2})) << "rank " << me.rank;

    record = {};
    ring.backward(whole.output, x, x, x, whole, kernel);
    // A send and a receive each of: keys and values, their gradient, keys and values, gradient, gradient. A gradient
    // travels while the blocks of the next hop are computed. No blocks are left for the last gradient.
    EXPECT_EQ(record.blocks_during_transfers(), (std::vector<int>{3, 3, 2, 2, 2, 2, 2, 2, 0, 0})) << "rank " << me.rank;
  }));
}

}  // namespace
}  // namespace dpbench
