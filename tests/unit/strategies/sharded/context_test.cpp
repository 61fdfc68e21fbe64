// Tests the strategy cp (context parallelism): its steps compared with the same steps on one device, its cut of the
// sequence, and its errors.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "strategies/context/exchange.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/one_device.h"

namespace dpbench {
namespace {

using namespace one_device;
using context::TokenCut;

std::vector<int64_t> positions_of(const std::vector<Piece>& pieces) {
  std::vector<int64_t> all;
  for (const Piece& piece : pieces)
    for (int64_t i = 0; i < piece.size; ++i) all.push_back(piece.first + i);
  return all;
}

TEST(TokenCut, ZigzagGivesEachRankAnEarlyAndALatePieceOfTheSequence) {
  const TokenCut cut(12, 3, /*zigzag=*/true);
  EXPECT_EQ(positions_of(cut.of(0)), (std::vector<int64_t>{0, 1, 10, 11}));
  EXPECT_EQ(positions_of(cut.of(1)), (std::vector<int64_t>{2, 3, 8, 9}));
  EXPECT_EQ(positions_of(cut.of(2)), (std::vector<int64_t>{4, 5, 6, 7}));
}

TEST(TokenCut, AssignsEachTokenToOneRankAndJoiningRestoresTheOrder) {
  for (const bool zigzag : {true, false})
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int64_t tokens = ranks; tokens <= 3 * ranks + 1; ++tokens) {
        const TokenCut cut(tokens, ranks, zigzag);
        std::vector<int64_t> by_rank;
        int64_t least = tokens, most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto own = positions_of(cut.of(rank));
          EXPECT_EQ(static_cast<int64_t>(own.size()), cut.count(rank));
          EXPECT_FALSE(own.empty());
          by_rank.insert(by_rank.end(), own.begin(), own.end());
          least = std::min(least, cut.count(rank)), most = std::max(most, cut.count(rank));
        }
        EXPECT_LE(most - least, 1);
        EXPECT_TRUE(cut.in_order(at::tensor(by_rank), 0).equal(at::arange(tokens)));
      }
}

// Returns the work of each rank in causal attention: its number of pairs of a query and a key that the query attends
// to.
std::vector<int64_t> work(const TokenCut& cut, int ranks) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t pairs = 0;
    for (const int64_t position : positions_of(cut.of(rank))) pairs += position + 1;
    all.push_back(pairs);
  }
  return all;
}

TEST(TokenCut, ZigzagGivesEachRankTheSameCausalAttentionWork) {
  const auto even = work(TokenCut(32, 4, true), 4), uneven = work(TokenCut(32, 4, false), 4);
  EXPECT_EQ(even, (std::vector<int64_t>(4, 33 * 32 / 2 / 4)));
  EXPECT_EQ(uneven.back(), 228);
}

class ContextParallelSteps : public testing::TestWithParam<Setting> {};

TEST_P(ContextParallelSteps, EqualThoseOfOneDevice) { expect_steps_of_one_device(GetParam()); }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  constexpr double near = 1e-12;
  const std::vector<Given> kinds = {{{"poison", "on"}}, {{"zigzag", "off"}}, {{"kind", "ulysses"}}};
  // In these settings, the number of tokens is not a multiple of the number of ranks, nor of twice that number.
  for (const Given& params : kinds) {
    for (const char* mesh : {"cp=2", "cp=3"}) {
      for (const char* workload : {"gpt-exact", "gpt-exact-llama"}) all.push_back({"cp", mesh, workload, "", params});
      all.push_back({"cp", mesh, "gpt", "tiny", params, {}, near});
      all.push_back({"cp", mesh, "gpt", "tiny-llama", params, {}, near});
    }
    all.push_back({"cp", "dp=2,cp=2", "gpt", "tiny", params, 0.01, near});
    all.push_back({"layout", "cp=2,tp=2", "gpt", "layers=1,heads=4,hidden=16,seq=11,vocab=128", params, {}, near});
    all.push_back({"layout", "cp=2,pp=2", "gpt", "tiny-llama", params, 0.01, near});
    all.push_back({"layout", "shard=2,cp=2", "gpt", "tiny", params, 0.01, near});
  }
  all.push_back({"cp", "cp=4", "gpt-exact"});
  all.push_back({"cp", "cp=4", "gpt-exact", "", {{"zigzag", "off"}}});
  all.push_back({"cp", "cp=4", "gpt-exact-llama", "", {{"kind", "ulysses"}}});
  all.push_back({"cp", "cp=4", "gpt", "tiny-llama", {}, {}, near});
  all.push_back({"layout", "cp=2,tp=2", "gpt-exact", "", {{"sequence", "on"}}});
  all.push_back({"layout", "tp=2,cp=2", "gpt", "tiny-llama", {{"sequence", "on"}, {"verify", "on"}}, 0.01, near});
  all.push_back({"layout", "pp=2,cp=2", "gpt-exact", "", {{"microbatches", "2"}}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(ContextParallel, ContextParallelSteps, testing::ValuesIn(settings()),
                         [](const auto& one) { return text_of(one.param); });

// Makes a strategy that should refuse the model, the mesh or the parameter. Returns the error message of rank 0.
std::string refusal(const std::string& strategy, const std::string& mesh, const std::string& workload,
                    const std::string& model, const Given& params = {}) {
  const auto made = workload_registry().at(workload).make({.model = model});
  return on_ranks(ranks_of(parse_mesh(mesh)), [&](Rank& me) { made_on(me.mesh(mesh), strategy, *made, params); }).at(0);
}

TEST(ContextParallel, RefusesModelsItCannotSplitWithTheReason) {
  const Given ulysses = {{"kind", "ulysses"}};
  expect_contains(refusal("cp", "cp=2", "mnist-mlp", ""), {"cp: ", "no sequence"});
  expect_contains(refusal("cp", "cp=4", "gpt", "tiny,seq=3"), {"3 tokens", "4 ranks of cp"});
  expect_contains(refusal("cp", "cp=4", "gpt", "tiny", ulysses),
                  {"cp.kind=ulysses: 3 attention heads", "4 ranks of cp", "kind=ring"});
  expect_contains(refusal("layout", "cp=2,tp=2", "gpt", "tiny", ulysses), {"layout.kind=ulysses: 1 attention heads"});
  expect_contains(refusal("layout", "cp=2,tp=3", "gpt-exact", "", {{"sequence", "on"}}),
                  {"layout.sequence=on: ", "5 tokens", "2 ranks of cp", "3 ranks of tp"});
  expect_contains(refusal("cp", "cp=2", "gpt", "tiny", {{"kind", "star"}}), {"cp.kind=star", "ring, ulysses"});
}

// Text generation begins with a sequence of one token, which is shorter than the number of ranks.
TEST(ContextParallel, EvaluatesShortAndUnevenSequencesLikeOneDevice) {
  for (const char* kind : {"ring", "ulysses"})
    for (const int64_t tokens : {1, 2, 3, 5}) {
      const auto workload = gpt("tiny");
      const auto output = [&](const std::string& strategy, const std::string& mesh, const Given& params) {
        at::Tensor found;
        expect_no_errors(on_ranks(ranks_of(parse_mesh(mesh)), [&](Rank& me) {
          const auto made = made_on(me.mesh(mesh), strategy, *workload, params);
          Batch batch = workload->batch(at::arange(2));
          batch.input = batch.input.narrow(1, 0, tokens);
          const at::Tensor mine = made->forward(batch);
          if (me.rank == 0) found = mine;
        }));
        return found;
      };
      EXPECT_LE(distance(output("ddp", "", {}), output("cp", "cp=3", {{"kind", kind}})), 1e-12) << kind << tokens;
    }
}

TEST(ContextParallel, NamesTheLayerWhoseTransferFailed) {
  // The calls of a rank in ring attention: a send and a receive of keys and values in each of the two layers (0 to 3),
  // the sum of the loss (4), then the backward pass, from layer 1 to layer 0.
  const Given ulysses = {{"kind", "ulysses"}};
  expect_contains(error_of_call("cp", "cp=2", 2), {"cp: ", "keys", "model.layers.1", "is gone"});
  expect_contains(error_of_call("cp", "cp=2", 4), {"cp: ", "the loss", "lm_head", "is gone"});
  expect_contains(error_of_call("cp", "cp=2", 5), {"cp: ", "keys", "model.layers.1", "is gone"});
  expect_contains(error_of_call("cp", "cp=2", 0, ulysses), {"cp: ", "heads", "model.layers.0", "is gone"});
  expect_contains(error_of_call("cp", "cp=2", 3, ulysses), {"cp: ", "tokens", "model.layers.0", "is gone"});
}

}  // namespace
}  // namespace dpbench
