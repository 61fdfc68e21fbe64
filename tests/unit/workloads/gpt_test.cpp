#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/contains.h"
#include "workloads/data/tensor_file.h"
#include "workloads/gpt/attention.h"
#include "workloads/gpt/experts.h"
#include "workloads/gpt/gpt.h"
#include "workloads/gpt/layers.h"
#include "workloads/gpt/model.h"
#include "workloads/layers/init.h"

namespace dpbench::gpt {
namespace {

namespace fs = std::filesystem;

constexpr const char* both[] = {"tiny,dropout=0", "tiny-llama"};

std::shared_ptr<Model> float64_model(const Shape& shape) {
  auto model = make_model(shape, 1);
  model->to(at::kDouble);
  return model;
}

at::Tensor some_tokens(const Shape& shape, int64_t rows) {
  return at::randint(shape.vocab, {rows, shape.seq}, own_generator(5), at::kLong);
}

std::string refusal(const std::string& model) {
  try {
    parse_shape(model);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(GptShape, SettingsAfterAModelNameOverrideThoseOfTheModel) {
  const Shape shape = parse_shape("tiny,layers=3,tied=off,style=llama,lr=0.5");
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.hidden, 18);
  EXPECT_FALSE(shape.tied);
  EXPECT_EQ(shape.style, Style::llama);
  EXPECT_EQ(shape.learning_rate, 0.5);
  EXPECT_EQ(parse_shape("hidden=64").mlp, 256);
  EXPECT_EQ(parse_shape("hidden=64,style=llama").mlp, 171);
}

TEST(GptShape, AnErrorOfTheFlagModelQuotesTheValueAndSaysWhatIsAllowed) {
  const auto refused = [](const std::string& model, std::initializer_list<std::string_view> words) {
    return mentions_in_order(refusal(model), words);
  };
  EXPECT_TRUE(refused("big", {"--model big: ", "'big'", "tiny, tiny-llama, tiny-experts, small, gpt2-124m, llama-1b",
                              "layers=8,hidden=64"}));
  EXPECT_TRUE(refused("layers=4,small", {"--model layers=4,small: ", "'small'", "first", "layers=8"}));
  EXPECT_TRUE(refused("depth=4", {"--model depth=4: ", "'depth'", "style, layers"}));
  for (const auto* bad : {"layers=0", "layers=-1", "layers=1.5", "layers=", "layers=99999999999999999999"})
    EXPECT_TRUE(refused(bad, {std::string("--model ") + bad + ": ", "layers", "whole number", "1"}));
  EXPECT_TRUE(refused("dropout=1", {"--model dropout=1: ", "dropout", "0 to less than 1"}));
  EXPECT_TRUE(refused("tied=yes", {"--model tied=yes: ", "tied", "on or off"}));
  EXPECT_TRUE(refused("hidden=10,heads=4", {": hidden 10 ", "heads 4"}));
  EXPECT_TRUE(refused("heads=4,kv_heads=3", {": heads 4 ", "kv_heads 3"}));
  EXPECT_TRUE(refused("experts=3,top_k=4", {": top_k 4 ", "experts, 3"}));
  EXPECT_TRUE(refused("hidden=12,heads=4,style=llama", {"hidden / heads", "3"}));
}

// The expected values are the published numbers of parameters of these models.
TEST(GptShape, Gpt2AndLlama1bHaveThePublishedNumbersOfParameters) {
  const auto small = [](std::string name, int64_t layers) {
    return parse_shape(name.append(",layers=").append(std::to_string(layers)));
  };
  const auto count = [](const Shape& shape) {
    int64_t sum = 0;
    for (const auto& parameter : make_model(shape, 1)->parameters()) sum += parameter.numel();
    return sum;
  };
  const int64_t one = count(small("gpt2-124m", 1)), two = count(small("gpt2-124m", 2));
  EXPECT_EQ(one + 11 * (two - one), 124'439'808);
  const Shape llama = parse_shape("llama-1b");
  const int64_t norms = (2 * llama.layers + 1) * llama.hidden;
  EXPECT_EQ(llama.multiplied_parameters() + norms, 1'235'814'400);
}

TEST(GptModel, ForwardEqualsRunningItsNamedBlocksInOrder) {
  for (const auto* name : both) {
    const Shape shape = parse_shape(name);
    const auto model = make_model(shape, 1);
    std::vector<std::string> names;
    at::Tensor x = some_tokens(shape, 2);
    const at::Tensor expected = model->forward(x, {});
    for (const Block& block : model->blocks()) names.push_back(block.name), x = block.forward(x, {});
    EXPECT_TRUE(at::equal(x, expected));
    EXPECT_EQ(names, (std::vector<std::string>{"model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm",
                                               "lm_head"}));
  }
}

TEST(GptModel, BlocksContainEveryParameterOnceAndATiedOneTwice) {
  const auto parameters_of_blocks = [](const Model& model) {
    size_t count = 0;
    for (const Block& block : model.blocks())
      for (const auto& layer : block.layers) count += layer->parameters().size();
    return count;
  };
  const auto tied = make_model(parse_shape("tiny"), 1), untied = make_model(parse_shape("tiny-llama"), 1);
  EXPECT_EQ(parameters_of_blocks(*tied), tied->parameters().size() + 1);
  EXPECT_EQ(parameters_of_blocks(*untied), untied->parameters().size());
}

TEST(GptModel, ATokenHasNoEffectOnEarlierPositions) {
  for (const auto* name : both) {
    const Shape shape = parse_shape(name);
    const auto model = float64_model(shape);
    const at::Tensor tokens = some_tokens(shape, 1);
    at::Tensor changed = tokens.clone();
    changed[0][6] = (changed[0][6] + 1).remainder(shape.vocab);
    const at::Tensor a = model->forward(tokens, {}), b = model->forward(changed, {});
    EXPECT_LT((a - b).abs().narrow(1, 0, 6).max().item<double>(), 1e-14) << name;
    EXPECT_GT((a - b).abs().narrow(1, 6, 1).max().item<double>(), 1e-6) << name;
    EXPECT_GT((a - b).abs().narrow(1, 7, shape.seq - 7).max().item<double>(), 1e-9) << name;
  }
}

TEST(GptLayers, AMatrixProductWithPaddedWeightsHasTheValuesAndGradientsOfTheUnpaddedOne) {
  const at::Tensor x = at::randint(-3, 4, {2, 5, 6}, own_generator(1), at::kDouble).requires_grad_();
  const at::Tensor weight = at::randint(-3, 4, {7, 6}, own_generator(2), at::kDouble).requires_grad_();
  const at::Tensor slope = at::randint(-3, 4, {2, 5, 7}, own_generator(3), at::kDouble);
  std::vector<std::vector<at::Tensor>> found;
  for (const int64_t multiple : {1, 4, 7}) {
    const at::Tensor product = padded_product(x, weight, multiple);
    found.push_back({product, torch::autograd::grad({product}, {x}, {slope}, /*retain_graph=*/true)[0],
                     torch::autograd::grad({product}, {weight}, {slope})[0]});
    EXPECT_EQ(product.stride(1), multiple == 4 ? 8 : 7);
  }
  for (size_t i = 0; i < found[0].size(); ++i)
    for (const auto& other : found) EXPECT_TRUE(other[i].equal(found[0][i])) << i;
}

at::Tensor mixture_by_definition(const Experts& layer, const Shape& shape, const at::Tensor& x) {
  const auto named = layer.named_parameters();
  at::Tensor y = at::zeros_like(x);
  for (int64_t row = 0; row < x.size(0); ++row) {
    std::vector<int64_t> taken(static_cast<size_t>(shape.experts), 0);
    const auto most = static_cast<int64_t>(
        std::ceil(shape.capacity * static_cast<double>(shape.top_k * x.size(1)) / static_cast<double>(shape.experts)));
    for (int64_t t = 0; t < x.size(1); ++t) {
      const at::Tensor token = x[row][t];
      const auto [scores, chosen] = named["router.weight"].matmul(token).softmax(0).topk(shape.top_k);
      for (int64_t k = 0; k < shape.top_k; ++k) {
        const auto expert = chosen[k].item<int64_t>();
        if (shape.capacity > 0 && ++taken[static_cast<size_t>(expert)] > most) continue;
        const auto product = [&](const std::string& name, const at::Tensor& input) {
          return named["experts." + name + ".weight"][expert].matmul(input);
        };
        const at::Tensor inner = at::silu(product("gate_proj", token)) * product("up_proj", token);
        y[row][t] += product("down_proj", inner) * (scores[k] / scores.sum());
      }
    }
  }
  return y;
}

TEST(GptExperts, OutputEqualsALoopOverTokensAndTheirExperts) {
  for (const char* name : {"tiny-experts", "tiny-experts,top_k=1", "tiny-experts,capacity=0.8"}) {
    const Shape shape = parse_shape(name);
    Experts layer(shape, InitialWeights(3, false));
    layer.to(at::kDouble);
    const at::NoGradGuard no_grad;
    const at::Tensor x = at::randn({3, shape.seq, shape.hidden}, own_generator(4), at::kDouble).mul_(20);
    const at::Tensor due = mixture_by_definition(layer, shape, x), found = layer.forward(x, nullptr).y;
    EXPECT_LT((due - found).abs().max().item<double>(), 1e-13) << name;
    EXPECT_GT(found.abs().max().item<double>(), 1e-3) << name;
  }
}

TEST(GptExperts, BalanceLossIsOneWithEvenRoutingAndTheExpertCountIfOneExpertGetsAllTokens) {
  const Shape shape = parse_shape("tiny-experts,experts=4,top_k=1,hidden=4,heads=1,seq=8");
  Experts layer(shape, InitialWeights(3, false));
  const at::NoGradGuard no_grad;
  for (auto& one : layer.named_parameters())
    if (one.key() == "router.weight") one.value().copy_(at::eye(4) * 50);
  const at::Tensor even = at::eye(4).repeat({2, 1}).unsqueeze(0), one = at::eye(4)[2].expand({1, 8, 4});
  EXPECT_NEAR(layer.forward(even, nullptr).balance.item<double>(), 1, 1e-6);
  EXPECT_NEAR(layer.forward(one, nullptr).balance.item<double>(), 4, 1e-6);
}

TEST(GptExperts, TheLossIncludesTheMeanBalanceLossOfTheTokensThatHaveATarget) {
  const auto loss_of = [](const std::string& balance) {
    const Gpt workload(parse_shape("tiny-experts,balance=" + balance), "");
    const auto model = workload.model(1);
    const Batch batch = workload.batch(at::arange(3));
    const at::Tensor output = model->forward(batch.input, {});
    EXPECT_EQ(output.size(2), 258);
    EXPECT_LT(workload.predicted(output).max().item<int64_t>(), 257);
    const at::Tensor counted = batch.target.ne(no_target).to(at::kFloat);
    const at::Tensor mean = (output.select(2, 257) * counted).sum() / counted.sum();
    return std::pair(workload.loss(output, batch.target).item<double>(), mean.item<double>());
  };
  const auto [without, mean] = loss_of("0");
  EXPECT_GT(mean, 1);
  EXPECT_NEAR(loss_of("0.5").first, without + 0.5 * mean, 1e-5);
}

TEST(GptAttention, OfALlamaEqualsALoopOverHeadsAndPositions) {
  Shape shape = parse_shape("tiny-llama");
  Attention attention(shape, InitialWeights(3, false));
  attention.to(at::kDouble);
  const auto named = attention.named_parameters();
  const int64_t rows = 2, size = shape.head_size();
  const at::Tensor x = at::randn({rows, shape.seq, shape.hidden}, own_generator(4), at::kDouble);
  const auto heads = [&](const char* projection, int64_t count) {
    return x.matmul(named[std::string(projection) + ".weight"].t()).view({rows, shape.seq, count, size});
  };
  const Rotary rotary(shape.seq, size);
  const auto turned = [&](const at::Tensor& y) {
    return rotary.rotate(y.transpose(1, 2), {{0, shape.seq}}).transpose(1, 2);
  };
  const at::Tensor query = turned(heads("q_proj", shape.heads)), key = turned(heads("k_proj", shape.kv_heads)),
                   value = heads("v_proj", shape.kv_heads);
  at::Tensor mixed = at::zeros({rows, shape.seq, shape.heads, size}, at::kDouble);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t t = 0; t < shape.seq; ++t) {
        const int64_t shared = head / (shape.heads / shape.kv_heads);
        const at::Tensor seen = key[row].narrow(0, 0, t + 1).select(1, shared);
        const at::Tensor weights = (seen.matmul(query[row][t][head]) / std::sqrt(static_cast<double>(size))).softmax(0);
        mixed[row][t][head] = weights.matmul(value[row].narrow(0, 0, t + 1).select(1, shared));
      }
  const at::Tensor expected = mixed.reshape(x.sizes()).matmul(named["o_proj.weight"].t());
  EXPECT_LT((attention.forward(x) - expected).abs().max().item<double>(), 1e-13);
}

TEST(GptAttention, ScoresWithRotaryEmbeddingDependOnlyOnRelativePositions) {
  const Rotary rotary(9, 6);
  const at::Tensor query = at::randn({6}, own_generator(1), at::kDouble),
                   key = at::randn({6}, own_generator(2), at::kDouble);
  const auto at_all = [&](const at::Tensor& x) { return rotary.rotate(x.expand({1, 1, 9, 6}), {{0, 9}})[0][0]; };
  const at::Tensor scores = at_all(query).matmul(at_all(key).t());
  for (int64_t i = 0; i + 1 < 9; ++i)
    for (int64_t j = 0; j + 1 < 9; ++j)
      EXPECT_NEAR(scores[i][j].item<double>(), scores[i + 1][j + 1].item<double>(), 1e-12);
  EXPECT_GT((scores[3][3] - scores[3][4]).abs().item<double>(), 1e-3);
  EXPECT_NEAR(scores[0][0].item<double>(), query.dot(key).item<double>(), 1e-12);
}

TEST(Gpt, TargetsAreTheNextTokensAndSamplesAreConsecutivePiecesOfTheText) {
  const Gpt workload(parse_shape("seq=16"), "");
  const Batch batch = workload.batch(at::arange(2));
  const std::string text(built_in_text().substr(0, 33));
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t t = 0; t < 16; ++t) {
      EXPECT_EQ(batch.input[row][t].item<int64_t>(), text[static_cast<size_t>(16 * row + t)]);
      EXPECT_EQ(batch.target[row][t].item<int64_t>(), text[static_cast<size_t>(16 * row + t + 1)]);
    }
  const Batch test = workload.test_batch(at::arange(1)), last = workload.batch(at::full({1}, workload.samples() - 1));
  EXPECT_EQ(test.input[0][0].item<int64_t>(), last.target[0][15].item<int64_t>());
  EXPECT_EQ(workload.loss_terms(batch), 32);
}

TEST(Gpt, TheLossIgnoresPaddedTargetsAndEverySampleHasAnUnpaddedTarget) {
  const Gpt workload(parse_shape("tiny,dropout=0"), "");
  const auto model = workload.model(1);
  std::set<int64_t> lengths;
  for (int64_t id = 0; id < 60; ++id) {
    const Batch batch = workload.batch(at::full({1}, id));
    const int64_t length = workload.loss_terms(batch);
    lengths.insert(length);
    ASSERT_GE(length, 1);
    EXPECT_TRUE(batch.target[0].narrow(0, length, 11 - length).eq(-100).all().item<bool>());
    const at::Tensor logits = model->forward(batch.input, {});
    const at::Tensor own = at::cross_entropy_loss(logits[0].narrow(0, 0, length), batch.target[0].narrow(0, 0, length));
    EXPECT_NEAR(workload.loss(logits, batch.target).item<double>(), own.item<double>(), 1e-6);
  }
  EXPECT_GT(lengths.size(), 8U);
}

// Returns a forward pass that predicts `token` at every position, with a probability near 1.
Workload::Forward always(int64_t token, int64_t vocab) {
  return [=](const Batch& batch) { return at::one_hot(at::full_like(batch.input, token), vocab).to(at::kFloat) * 1e3; };
}

TEST(Gpt, ContinuesATextWithTheTokenThatTheModelPredicts) {
  const Gpt workload(parse_shape("tiny"), "");
  const std::string text = workload.continued(always('x', 257), 20, 1);
  EXPECT_EQ(text.size(), (11 + 1) / 2 + 20u);
  EXPECT_TRUE(text.ends_with(std::string(20, 'x'))) << text;
}

TEST(Gpt, GeneratedTextIsTheSameForTheSameSeedAndDiffersForAnother) {
  const Gpt workload(parse_shape("tiny"), "");
  const auto model = workload.model(1);
  model->eval();
  const auto forward = [&](const Batch& batch) { return model->forward(batch.input, {.ids = batch.ids}); };
  const std::string text = workload.continued(forward, 30, 1);
  EXPECT_EQ(text, workload.continued(forward, 30, 1));
  EXPECT_NE(text, workload.continued(forward, 30, 2));
}

TEST(Gpt, UnprintableCharactersArePrintedAsQuestionMarks) {
  const Gpt workload(parse_shape("tiny"), "");
  for (const int64_t token : {7, 27, 127, 200, 256})
    EXPECT_TRUE(workload.continued(always(token, 257), 2, 1).ends_with("??")) << token;
}

// The formula counts 6 operations per token and multiplied parameter, and 12 per layer, hidden feature and pair of
// tokens.
TEST(GptShape, FlopPerSampleEqualsTheClosedFormula) {
  const Gpt workload(parse_shape("layers=2,hidden=8,heads=2,seq=16,vocab=256"), "");
  EXPECT_EQ(workload.tokens_per_sample(), 16);
  const double layer = 4 * 8 * 8 + 2 * 8 * 32;
  EXPECT_EQ(workload.flop_per_sample(), 6 * (2 * layer + 8 * 256) * 16 + 12 * 2 * 8 * 16 * 16);
}

class WorkloadGptExact : public testing::TestWithParam<const char*> {};

// In float64 every whole number is exact, so equal values in float32 mean that float32 rounded nothing.
TEST_P(WorkloadGptExact, HasEqualGradientsInFloat32AndFloat64AndNoneIsAllZero) {
  const auto workload = workload_registry().at(GetParam()).make({.scale = 3});
  const auto narrow = workload->model(1), wide = workload->model(1);
  wide->to(at::kDouble);
  const Batch batch = workload->batch(at::arange(6));
  workload->loss(narrow->forward(batch.input, {}), batch.target).backward();
  const at::Tensor loss = workload->loss(wide->forward(batch.input, {}), batch.target);
  loss.backward();
  const auto exact = wide->named_parameters();
  for (const auto& item : narrow->named_parameters()) {
    const at::Tensor gradient = item.value().grad().to(at::kDouble);
    EXPECT_TRUE(at::equal(gradient, exact[item.key()].grad())) << item.key();
    EXPECT_TRUE(at::equal(gradient, gradient.round())) << item.key();
    EXPECT_TRUE(gradient.ne(0).any().item<bool>()) << item.key();
  }
}

TEST_P(WorkloadGptExact, GradientsOfSingleSamplesAddUpExactlyToThoseOfTheBatch) {
  const auto workload = workload_registry().at(GetParam()).make({.scale = 1});
  const auto whole = workload->model(1), parts = workload->model(1);
  const Batch batch = workload->batch(at::arange(5));
  workload->loss(whole->forward(batch.input, {}), batch.target).backward();
  for (const int64_t row : {3, 0, 4, 1, 2}) {
    const Batch one = workload->batch(at::full({1}, row));
    workload->loss(parts->forward(one.input, {}), one.target).backward();
  }
  const auto all = parts->named_parameters();
  for (const auto& item : whole->named_parameters())
    EXPECT_TRUE(at::equal(item.value().grad(), all[item.key()].grad())) << item.key();
}

INSTANTIATE_TEST_SUITE_P(Models, WorkloadGptExact, testing::Values("gpt-exact", "gpt-exact-llama", "gpt-exact-experts"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class TokenFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string refusal(const std::string& path, int64_t vocab) {
    try {
      Tokens tokens(path, vocab);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_ = fs::temp_directory_path() / ("dpbench-tokens-" + std::to_string(getpid()));
};

TEST_F(TokenFiles, MayHoldBytesUint16OrSafetensors) {
  const at::Tensor first = at::arange(3);
  EXPECT_TRUE(at::equal(Tokens(write("a.txt", "\x01\x02\xff"), 256).at(first), at::tensor({1, 2, 255}, at::kLong)));
  const std::string bytes("\x01\x00\x02\x00\xff\xff", 6);
  EXPECT_TRUE(at::equal(Tokens(write("a.bin", bytes), 65536).at(first), at::tensor({1, 2, 65535}, at::kLong)));
  const std::string stored = folder_ / "a.safetensors";
  for (const at::ScalarType type : {at::kInt, at::kLong, at::kUInt32, at::kUInt64}) {
    save_tensors(stored, {.tensors = {{"tokens", at::tensor({7, 8, 70000}, at::kInt).to(type)}}, .metadata = {}});
    EXPECT_TRUE(at::equal(Tokens(stored, 70001).at(first), at::tensor({7, 8, 70000}, at::kLong))) << type;
  }
  save_tensors(stored, {.tensors = {{"tokens", at::tensor({7, 8, 65535}, at::kInt).to(at::kUInt16)}}, .metadata = {}});
  EXPECT_TRUE(at::equal(Tokens(stored, 65536).at(first), at::tensor({7, 8, 65535}, at::kLong)));
}

TEST_F(TokenFiles, GeneratedTokensArePrintedAsNumbersIfTheFileHoldsUint16Tokens) {
  const Gpt workload(parse_shape("tiny,vocab=300"), write("ids.bin", std::string(800, '\1')));
  EXPECT_TRUE(workload.continued(always(256, 300), 2, 1).ends_with(" 257 256 256"));
}

TEST_F(TokenFiles, AreRefusedWithTheReasonIfInvalid) {
  EXPECT_TRUE(mentions(refusal(folder_ / "none", 256), {"--data", "none", "readable"}));
  EXPECT_TRUE(mentions(refusal(folder_, 256), {"--data", "readable"}));
  EXPECT_NE(refusal(write("empty", ""), 256).find("or empty"), std::string::npos);
  EXPECT_TRUE(mentions_in_order(refusal(write("odd.bin", "abc"), 65536), {"odd.bin", "3 bytes", "uint16"}));
  EXPECT_TRUE(mentions_in_order(refusal(write("b.txt", "a\xfe"), 200), {"b.txt", "--model", "vocab=255", "200"}));
  const std::string floats = folder_ / "f.safetensors";
  save_tensors(floats, {.tensors = {{"tokens", at::ones({3})}}, .metadata = {}});
  EXPECT_TRUE(mentions_in_order(refusal(floats, 256), {"f.safetensors", "one tensor", "whole numbers"}));
}

TEST_F(TokenFiles, WithTooFewTokensForTenSamplesAreRefused) {
  const auto path = write("short.txt", std::string(160, 'a'));
  EXPECT_THROW(Gpt(parse_shape("seq=16"), path), UsageError);
  EXPECT_EQ(Gpt(parse_shape("seq=16"), write("ten.txt", std::string(161, 'a'))).samples(), 9);
}

}  // namespace
}  // namespace dpbench::gpt
