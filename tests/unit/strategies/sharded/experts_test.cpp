// Tests the strategy ep (expert parallelism): its steps compared with the same steps on one device, the exchange of
// tokens, and its errors.
#include "workloads/gpt/experts.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "strategies/experts/exchange.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/sharded/one_device.h"

namespace dpbench {
namespace {

using namespace one_device;

std::unique_ptr<Workload> made_workload(const std::string& model) {
  return workload_registry().at("gpt").make({.model = model});
}

class ExpertParallelSteps : public testing::TestWithParam<Setting> {};

TEST_P(ExpertParallelSteps, EqualThoseOfOneDevice) { expect_steps_of_one_device(GetParam()); }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  constexpr double near = 1e-12;
  // In most of these settings, the number of experts is not a multiple of the number of ranks.
  for (const char* mesh : {"ep=2", "ep=3", "ep=4", "dp=2,ep=2", "ep=2,dp=2"}) {
    // The workload gpt-exact-experts is not tested with three ranks: it needs exact means, and a mean over three ranks
    // is no whole number.
    if (mesh != std::string("ep=3")) all.push_back({"ep", mesh, "gpt-exact-experts"});
    all.push_back({"ep", mesh, "gpt", "tiny-experts", {}, {}, near});
    all.push_back({"ep", mesh, "gpt", "tiny,experts=5,top_k=3", {}, 0.01, near});
  }
  all.push_back({"ep", "ep=3", "gpt", "tiny-experts,top_k=1", {}, {}, near});
  all.push_back({"ep", "ep=3", "gpt", "tiny-experts,capacity=0.7", {}, 0.01, near});
  for (const char* mesh : {"ep=2,pp=2", "pp=2,ep=2", "shard=2,ep=2", "ep=2,shard=2"}) {
    all.push_back({"layout", mesh, "gpt-exact-experts", "", {{"microbatches", "2"}}});
    all.push_back({"layout", mesh, "gpt", "tiny-experts", {{"poison", "on"}}, 0.01, near});
  }
  all.push_back({"layout", "dp=2,shard=2,ep=2", "gpt-exact-experts"});
  // The pipeline cuts each micro-batch into two parts. A micro-batch of one sample on one rank of ep cannot be cut, so
  // the other ranks of ep do not cut theirs.
  all.push_back({"layout", "ep=2,pp=2", "gpt", "tiny-experts", {{"microbatches", "2"}}, {}, near});
  return all;
}

INSTANTIATE_TEST_SUITE_P(ExpertParallel, ExpertParallelSteps, testing::ValuesIn(settings()),
                         [](const auto& one) { return text_of(one.param); });

// If all scores are equal, the router chooses the first two experts. Both are on the first rank, so the experts of
// other ranks get no tokens.
TEST(ExpertParallel, ExpertsWithoutTokensGetZeroGradients) {
  const auto workload = made_workload("tiny-experts,experts=6");
  const auto gradients = [&](const std::string& strategy, const std::string& mesh) {
    NamedTensors found;
    expect_no_errors(on_ranks(3, [&](Rank& me) {
      const auto made = made_on(me.mesh(mesh), strategy, *workload, {}, at::kDouble);
      Snapshot snapshot{copies(made->parameters()), copies(made->buffers()), copies(made->state())};
      for (auto& [name, tensor] : snapshot.parameters)
        if (name.find("router") != std::string::npos) tensor.zero_();
      made->load(snapshot);
      one_step(*made, *workload, me.rank, 0);
      const NamedTensors mine = copies(made->gradients());
      if (me.rank == 0) found = mine;
    }));
    return found;
  };
  const NamedTensors due = gradients("ddp", "dp=3"), found = gradients("ep", "ep=3");
  expect_near(due, found, 1e-12, "gradient of");
  const at::Tensor& up = *find(found, "model.layers.0.mlp.experts.up_proj.weight");
  EXPECT_GT(up.narrow(0, 0, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(up.narrow(0, 2, 4).abs().max().item<double>(), 0);
}

// Compares experts on three ranks, each with its own samples, with the same experts on one device with all samples. The
// router's products are exact, because its factors are small whole numbers.
TEST(ExpertParallel, DroplessExpertsHaveTheBitsOfOneDevice) {
  gpt::Shape shape = gpt::parse_shape("tiny-experts,hidden=24,heads=4");
  constexpr int ranks = 3;
  constexpr int64_t rows = 2;
  at::manual_seed(3);
  const at::Tensor samples = at::randint(-2, 3, {ranks * rows, shape.seq, shape.hidden}, at::kFloat);
  const at::Tensor slope = at::randn(samples.sizes());
  const auto make = [&] {
    auto layer = std::make_shared<gpt::Experts>(shape, gpt::InitialWeights(5, false));
    for (auto& one : layer->named_parameters())
      if (one.key().find("router") != std::string::npos) one.value().detach().mul_(64).round_();
    return layer;
  };
  // Returns the output of a layer of experts, the gradient of its input, and the gradients of the experts.
  const auto pass = [&](const gpt::Experts& layer, const at::Tensor& own, const at::Tensor& its_slope,
                        const ExpertSplit* split) {
    const at::Tensor x = own.clone().requires_grad_();
    std::vector<at::Tensor> inputs = {x};
    for (const auto& one : layer.named_parameters())
      if (one.key().find("experts") != std::string::npos) inputs.push_back(one.value());
    const at::Tensor y = layer.forward(x, split).y;
    std::vector<at::Tensor> found = torch::autograd::grad({y}, inputs, {its_slope});
    found.insert(found.begin(), y.detach());
    return found;
  };
  const std::vector<at::Tensor> whole = pass(*make(), samples, slope, nullptr);
  expect_no_errors(on_ranks(ranks, [&](Rank& me) {
    const auto layer = make();
    const Piece mine = piece_of(even_pieces(shape.experts, ranks), me.rank);
    for (auto& one : layer->named_parameters())
      if (one.key().find("experts") != std::string::npos)
        one.value().set_data(one.value().detach().narrow(0, mine.first, mine.size).clone());
    const Mesh mesh = me.mesh("ep=3");
    const experts::Exchange split(mesh.axis("ep"), "ep", at::kCPU, nullptr);
    const auto own = [&](const at::Tensor& of_all) { return of_all.narrow(0, me.rank * rows, rows); };
    const std::vector<at::Tensor> found = pass(*layer, own(samples), own(slope), &split);
    for (size_t i = 0; i < found.size(); ++i) {
      const at::Tensor due = i < 2 ? own(whole[i]) : whole[i].narrow(0, mine.first, mine.size);
      EXPECT_TRUE(same_bits(due.contiguous(), found[i].contiguous())) << "rank " << me.rank << ", tensor " << i;
    }
  }));
}

std::string refusal(const std::string& strategy, const std::string& mesh, const std::string& model) {
  const auto workload = made_workload(model);
  return on_ranks(ranks_of(parse_mesh(mesh)), [&](Rank& me) { made_on(me.mesh(mesh), strategy, *workload, {}); }).at(0);
}

TEST(ExpertParallel, RefusesModelsItCannotCutWithTheReason) {
  expect_contains(refusal("ep", "ep=2", "tiny"), {"ep: ", "no experts"});
  expect_contains(refusal("layout", "dp=2,ep=2", "tiny"), {"layout: ", "no experts"});
  expect_contains(refusal("ep", "ep=3", "tiny-experts,experts=2"), {"3 ranks", "2 experts"});
  expect_contains(refusal("tp", "tp=2", "tiny-experts"), {"tensor parallelism", "experts"});
  expect_contains(refusal("cp", "cp=2", "tiny-experts"), {"context parallelism", "experts"});
}

TEST(ExpertParallel, RefusesTheAxesTpAndCpNamingBothAxesAndTheReason) {
  for (const std::string cut : {"tp", "cp"})
    for (const std::string& mesh : {"ep=2," + cut + "=2", cut + "=2,ep=2", "dp=2," + cut + "=2,ep=2"})
      expect_contains(refusal("layout", mesh, "tiny-experts"),
                      {"layout: ", "axes ep and " + cut + " cannot be combined",
                       "no model with experts can be divided over " + cut, "Use ep with dp, shard or pp"});
}

TEST(ExpertParallel, NamesTheLayerWhoseExchangeFailed) {
  expect_contains(error_of_call("ep", "ep=2", 0, {}, "tiny-experts"), {"ep: ", "numbers", "model.layers.0", "is gone"});
  const std::string of_tokens = error_of_call("ep", "ep=2", 1, {}, "tiny-experts");
  expect_contains(of_tokens, {"ep: ", "tokens", "model.layers.0", "is gone"});
  EXPECT_EQ(of_tokens.find("numbers"), std::string::npos) << of_tokens;
}

}  // namespace
}  // namespace dpbench
