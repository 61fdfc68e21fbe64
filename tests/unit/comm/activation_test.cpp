// Tests which distributions over the ranks (invariant, replicated, varying, partial) the tensors of an operation may
// have together, and that the operations of LibTorch pass them on.
#include "strategies/api/parts/activation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "strategies/api/parts/collectives.h"
#include "tests/support/contains.h"
#include "tests/unit/comm/mesh_ranks.h"

namespace dpbench::testing {
namespace {

using enum Spread;

const Axis tp{.name = "tp", .size = 2};

// Returns the distribution of an operation's result, or the message of its error.
std::string met(Rule rule, const std::vector<Spread>& inputs) {
  try {
    return text_of(spread_of(rule, "f", inputs));
  } catch (const std::logic_error& error) {
    return error.what();
  }
}

TEST(ActivationDistribution, OfAResultIsThatOfItsOperandsIfTheyAllShareIt) {
  for (const Spread spread : {invariant, replicated, varying})
    for (const Rule rule : {Rule::nonlinear, Rule::sum, Rule::product})
      EXPECT_EQ(met(rule, {spread, spread}), text_of(spread));
  EXPECT_EQ(met(Rule::nonlinear, {replicated, varying}), text_of(varying));
}

TEST(ActivationDistribution, APartialTensorMayBeMultipliedOnlyByAReplicatedOneAndNeedsLinearOperations) {
  EXPECT_TRUE(mentions_in_order(met(Rule::nonlinear, {partial}), {"f ", "partial", "linear"}));
  EXPECT_EQ(met(Rule::product, {partial, replicated}), text_of(partial));
  EXPECT_TRUE(mentions_in_order(met(Rule::product, {partial, partial}), {"f ", "two partial"}));
  EXPECT_TRUE(mentions_in_order(met(Rule::product, {partial, varying}), {"f ", "partial", "varying"}));
}

TEST(ActivationDistribution, AddingAReplicatedBiasToAPartialTensorIsRefused) {
  EXPECT_TRUE(mentions_in_order(met(Rule::sum, {partial, replicated}), {"f ", "adds", "partial"}));
  EXPECT_EQ(met(Rule::sum, {partial, partial}), text_of(partial));
}

TEST(ActivationDistribution, AProductOfAnInvariantTensorAndOneOfAnotherDistributionIsRefused) {
  for (const Spread other : {replicated, varying, partial})
    EXPECT_TRUE(mentions_in_order(met(Rule::product, {invariant, other}), {"f ", "invariant_to_replicate"}));
}

TEST(ActivationDistribution, AContractionOverAShardedDimensionGivesAPartialSum) {
  EXPECT_EQ(met(Rule::contraction, {varying, varying}), text_of(partial));
  EXPECT_TRUE(mentions_in_order(met(Rule::contraction, {varying, replicated}), {"f ", "varying"}));
}

// While an object of this class exists, operations propagate types. `found` gets the first wrong pair: an operation
// with input types that it cannot combine. tensor() makes tensors of any type.
struct Typed {
  TypeFindings found;
  TypedPass pass;

  static at::Tensor tensor(Spread spread, at::IntArrayRef sizes = {2, 2}, std::optional<int64_t> cut_dim = {}) {
    const at::Tensor made = at::ones(sizes).requires_grad_();
    set_spread(made, tp, spread, cut_dim);
    return made;
  }
};

TEST(ActivationTypes, OfResultsFollowFromThoseOfTheOperands) {
  Typed typed;
  using Call = std::function<at::Tensor()>;
  const at::Tensor i = Typed::tensor(invariant), r = Typed::tensor(replicated), v = Typed::tensor(varying),
                   p = Typed::tensor(partial), mask = at::ones({2, 2}).to(at::kBool);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor by_outputs = Typed::tensor(varying, {2, 2}, 0), by_inputs = Typed::tensor(varying, {2, 2}, 1);
  const std::vector<std::tuple<std::string, Spread, Call>> calls = {
      {"relu of I", invariant, [&] { return at::relu(i); }},
      {"I + I", invariant, [&] { return i + i; }},
      {"a mask times I", invariant, [&] { return i * mask; }},
      {"R times V", varying, [&] { return r * v; }},
      {"a view of P", partial, [&] { return p.reshape({4}).narrow(0, 1, 2); }},
      {"a cast of P", partial, [&] { return p.to(at::kDouble); }},
      {"a masked P", partial, [&] { return p.masked_fill(mask, 0); }},
      {"a P filled with infinity", partial, [&] { return p.masked_fill(mask, -infinity); }},
      {"a P filled with a P", partial, [&] { return p.masked_fill(mask, p.sum()); }},
      {"an R filled with a V", varying, [&] { return r.masked_fill(mask, v.sum()); }},
      {"a V filled with a number", varying, [&] { return v.masked_fill(mask, 1); }},
      {"a padded P", partial, [&] { return at::constant_pad_nd(p, {0, 1}); }},
      {"P + P", partial, [&] { return p + p; }},
      {"P times a number", partial, [&] { return p * 2; }},
      {"a column-parallel layer", varying, [&] { return at::linear(r, by_outputs, v.select(0, 0)); }},
      {"a row-parallel layer", partial, [&] { return at::linear(at::gelu(v), by_inputs); }},
      {"a row-parallel layer, transposed", partial, [&] { return at::mm(v, by_inputs.t()); }},
      {"a row-parallel layer, narrowed input", partial, [&] { return at::linear(r.narrow(1, 0, 2), by_inputs); }},
      {"attention by heads", varying, [&] { return v.matmul(v.t()); }},
      {"an embedding of a piece of the vocabulary", partial,
       [&] { return at::embedding(by_outputs, at::zeros({2}, at::kLong)); }},
      {"V after an operation in place", varying, [&] { return (v * 1).relu_(); }},
      {"V after another tensor was copied in", replicated, [&] { return (v * 1).detach().copy_(r); }}};
  for (const auto& [name, due, call] : calls) {
    const std::optional<Spread> found = spread_on(call(), tp);
    EXPECT_TRUE(found == due) << name << ": " << (found ? text_of(*found) : "none");
    EXPECT_EQ(typed.found.mistake, "") << name;
  }
}

TEST(ActivationTypes, AWrongPairOfOperationAndInputsIsNamedWithTheModelsBlockAndTheAxis) {
  using Call = std::function<at::Tensor()>;
  const auto tensor = Typed::tensor;
  const at::Tensor mask = at::ones({2, 2}).to(at::kBool);
  const std::vector<std::pair<std::string, Call>> calls = {
      {"gelu", [&] { return at::gelu(tensor(partial, {2, 2}, {})); }},
      {"relu", [&] { return (tensor(partial, {2, 2}, {}) * 1).relu_(); }},
      {"add", [&] { return tensor(partial, {2, 2}, {}) + tensor(replicated, {2}, {}); }},
      {"add", [&] { return tensor(partial, {2, 2}, {}) + 1; }},
      {"add", [&] { return tensor(partial, {2, 2}, {}) + at::ones({2}); }},
      {"masked_fill", [&] { return tensor(partial, {2, 2}, {}).masked_fill(mask, 1); }},
      {"masked_fill", [&] { return tensor(replicated, {2, 2}, {}).masked_fill(mask, tensor(partial, {}, {})); }},
      {"constant_pad_nd", [&] { return at::constant_pad_nd(tensor(partial, {2, 2}, {}), {0, 1}, 1); }},
      {"linear",
       [&] { return at::linear(tensor(varying, {2, 2}, {}), tensor(varying, {2, 2}, 1), tensor(invariant, {2}, {})); }},
      {"linear", [&] { return at::linear(tensor(invariant, {2, 2}, {}), tensor(varying, {2, 2}, 0)); }},
      {"linear", [&] { return at::linear(tensor(varying, {2, 2}, {}), tensor(varying, {2, 2}, 0)); }},
      {"layer_norm", [&] { return at::layer_norm(tensor(varying, {2, 2}, {}), {2}, tensor(invariant, {2}, {})); }}};
  for (const auto& [name, call] : calls) {
    Typed typed;
    name_block("block.1");
    call();
    EXPECT_TRUE(mentions_in_order(typed.found.mistake, {name, "block.1", "axis tp"})) << typed.found.mistake;
  }
}

TEST(ActivationTypes, AreNotCheckedOnTensorsOfUnknownTypeOrInUntypedOperations) {
  Typed typed;
  const at::Tensor p = Typed::tensor(partial), undeclared = at::ones({2, 2}).requires_grad_();
  at::gelu(undeclared + p);
  {
    const UntypedOperations untyped;
    at::gelu(p);
  }
  EXPECT_EQ(typed.found.mistake, "");
  at::gelu(p);
  EXPECT_NE(typed.found.mistake, "");
}

// An invariant tensor may be used like a replicated one where no gradient flows to it.
TEST(ActivationTypes, LetAnInvariantTensorWithoutAGradientBeMixedWithOthers) {
  Typed typed;
  const at::Tensor i = Typed::tensor(invariant), v = Typed::tensor(varying);
  EXPECT_EQ(spread_on(v - i.detach().amax(), tp), varying);
  EXPECT_EQ(typed.found.mistake, "");
  v - i.amax();
  EXPECT_NE(typed.found.mistake, "");
}

TEST(ActivationTypes, ACollectiveNamesTheTypeThatItTakesIfItsInputHasAnotherType) {
  const Cut cut{0, {1, 1}};
  using Call = std::function<at::Tensor(const at::Tensor&, const Axis&)>;
  const std::vector<std::tuple<std::string, Spread, Spread, Call>> calls = {
      {"invariant_to_replicate", invariant, replicated,
       [](const auto& x, const Axis& axis) { return invariant_to_replicate(x, axis); }},
      {"partial_to_invariant", partial, invariant,
       [](const auto& x, const Axis& axis) { return partial_to_invariant(x, axis); }},
      {"partial_to_invariant", partial, invariant,
       [](const auto& x, const Axis& axis) { return begin_partial_to_invariant(x, axis)(); }},
      {"partial_to_replicate", partial, replicated,
       [](const auto& x, const Axis& axis) { return partial_to_replicate(x, axis); }},
      {"varying_to_replicate", varying, replicated,
       [&](const auto& x, const Axis& axis) { return varying_to_replicate(x.narrow(0, 0, 1), axis, cut); }},
      {"varying_to_invariant", varying, invariant,
       [&](const auto& x, const Axis& axis) { return varying_to_invariant(x.narrow(0, 0, 1), axis, cut); }},
      {"partial_to_varying", partial, varying,
       [&](const auto& x, const Axis& axis) { return partial_to_varying(x, axis, cut); }},
      {"partial_to_varying", partial, varying,
       [&](const auto& x, const Axis& axis) { return begin_partial_to_varying(x, axis, cut)(); }},
      {"invariant_to_varying", invariant, varying,
       [&](const auto& x, const Axis& axis) { return invariant_to_varying(x, axis, cut); }},
      {"replicate_to_varying", replicated, varying,
       [&](const auto& x, const Axis& axis) { return replicate_to_varying(x, axis, cut); }},
      {"varying_to_varying", varying, varying,
       [&](const auto& x, const Axis& axis) { return varying_to_varying(x.narrow(0, 0, 1), axis, cut, {1, {1, 1}}); }},
      {"rows_to_ranks", varying, varying,
       [](const auto& x, const Axis& axis) { return rows_to_ranks(x, axis, {1, 1}, {1, 1}); }}};
  const auto errors = run_setups({.backend = "threads", .world = 2}, [&](const BackendSetup& setup) {
    const Mesh mesh = mesh_of("threads", {{"tp", 2}}, setup);
    const Axis& axis = mesh.axis("tp");
    for (const auto& [name, from, to, call] : calls)
      for (const Spread given : {invariant, replicated, varying, partial}) {
        Typed typed;
        const at::Tensor out = call(Typed::tensor(given), axis);
        EXPECT_EQ(spread_on(out, axis), to) << name;
        EXPECT_EQ(typed.found.typed, 1) << name;
        EXPECT_EQ(typed.found.untyped, 0) << name;
        if (given == from)
          EXPECT_EQ(typed.found.mistake, "");
        else
          EXPECT_TRUE(mentions_in_order(typed.found.mistake, {name, "axis tp", text_of(from), text_of(given)}));
      }
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(ActivationTypes, AreKeptPerAxis) {
  Typed typed;
  const Axis cp{.name = "cp", .size = 3};
  const at::Tensor x = Typed::tensor(invariant), w = Typed::tensor(invariant);
  set_spread(x, cp, varying), set_spread(w, cp, replicated);
  const at::Tensor y = at::linear(x, w);
  EXPECT_EQ(spread_on(y, tp), invariant);
  EXPECT_EQ(spread_on(y, cp), varying);
}

TEST(ActivationTypes, AreCheckedWithoutATypeFindingsObjectOnlyInABuildWithAssertions) {
  const TypedPass pass;
  const at::Tensor x = Typed::tensor(partial);
#ifdef NDEBUG
  EXPECT_EQ(spread_on(x, tp), std::nullopt);
#else
  EXPECT_THROW(invariant_to_replicate(x, tp), std::logic_error);
#endif
}

}  // namespace
}  // namespace dpbench::testing
