// Tests which distributions over the ranks (invariant, replicated, varying, partial) the activation tensors of an
// operation may have together.
#define DPBENCH_TYPED_ACTIVATIONS 1
#include "strategies/api/parts/activation.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace dpbench {
namespace {

using enum Spread;

const Axis tp{.name = "tp"};

Activation ones(Spread spread, const Axis& axis = tp) { return {at::ones({2}), axis, spread}; }

const auto add = [](const auto&... tensors) { return (tensors + ...); };

// Returns the distribution of an operation's result, or the message of its error.
template <class... Spreads>
std::string met(Rule rule, Spreads... spreads) {
  try {
    return text_of(computed(rule, "f", tp, add, ones(spreads)...).spread());
  } catch (const std::logic_error& error) {
    return error.what();
  }
}

TEST(ActivationDistribution, OfAResultIsThatOfItsOperandsIfTheyAllShareIt) {
  for (const Spread spread : {invariant, replicated, varying})
    for (const Rule rule : {Rule::nonlinear, Rule::sum, Rule::product})
      EXPECT_EQ(met(rule, spread, spread), text_of(spread));
  EXPECT_EQ(met(Rule::nonlinear, replicated, varying), text_of(varying));
}

TEST(ActivationDistribution, APartialTensorAllowsOnlyLinearOperationsAndProductsWithReplicatedTensors) {
  EXPECT_TRUE(mentions_in_order(met(Rule::nonlinear, partial), {"f ", "partial", "linear"}));
  EXPECT_EQ(met(Rule::product, partial, replicated), text_of(partial));
  EXPECT_TRUE(mentions_in_order(met(Rule::product, partial, partial), {"f ", "two partial"}));
  EXPECT_TRUE(mentions_in_order(met(Rule::product, partial, varying), {"f ", "partial", "varying"}));
}

TEST(ActivationDistribution, AddingAReplicatedBiasToAPartialTensorIsRefused) {
  EXPECT_TRUE(mentions_in_order(met(Rule::sum, partial, replicated), {"f ", "adds", "partial"}));
  EXPECT_EQ(met(Rule::sum, partial, partial), text_of(partial));
}

TEST(ActivationDistribution, AProductOfAnInvariantTensorAndOneOfAnotherDistributionIsRefused) {
  for (const Spread other : {replicated, varying, partial})
    EXPECT_TRUE(mentions_in_order(met(Rule::product, invariant, other), {"f ", "invariant_to_replicate"}));
}

TEST(ActivationDistribution, AContractionOverAShardedDimensionGivesAPartialSum) {
  EXPECT_EQ(met(Rule::contraction, varying, varying), text_of(partial));
  EXPECT_TRUE(mentions_in_order(met(Rule::contraction, varying, replicated), {"f ", "varying"}));
}

TEST(ActivationDistribution, EachCollectiveAcceptsOnlyTensorsOfTheDistributionThatItConverts) {
  const Cut cut{0, {2}};
  using Call = std::function<Activation(const Activation&)>;
  const std::vector<std::tuple<std::string, Spread, Spread, Call>> calls = {
      {"invariant_to_replicate", invariant, replicated, [](const auto& x) { return invariant_to_replicate(x, tp); }},
      {"partial_to_invariant", partial, invariant, [](const auto& x) { return partial_to_invariant(x, tp); }},
      {"partial_to_replicate", partial, replicated, [](const auto& x) { return partial_to_replicate(x, tp); }},
      {"varying_to_replicate", varying, replicated, [&](const auto& x) { return varying_to_replicate(x, tp, cut); }},
      {"varying_to_invariant", varying, invariant, [&](const auto& x) { return varying_to_invariant(x, tp, cut); }},
      {"partial_to_varying", partial, varying, [&](const auto& x) { return partial_to_varying(x, tp, cut); }},
      {"invariant_to_varying", invariant, varying, [&](const auto& x) { return invariant_to_varying(x, tp, cut); }},
      {"replicate_to_varying", replicated, varying, [&](const auto& x) { return replicate_to_varying(x, tp, cut); }},
      {"varying_to_varying", varying, varying, [&](const auto& x) { return varying_to_varying(x, tp, cut, cut); }}};
  for (const auto& [name, from, to, call] : calls)
    for (const Spread given : {invariant, replicated, varying, partial}) {
      if (given == from) {
        EXPECT_EQ(call(ones(given)).spread(), to) << name;
        continue;
      }
      try {
        call(ones(given));
        ADD_FAILURE() << name << " took a tensor that is " << text_of(given);
      } catch (const std::logic_error& error) {
        EXPECT_TRUE(mentions_in_order(error.what(), {name, text_of(from), "axis tp", text_of(given)}));
      }
    }
}

TEST(ActivationDistribution, OperationsRejectTensorsDistributedOverAnotherMeshAxis) {
  EXPECT_THROW(partial_to_invariant(ones(partial, {.name = "cp"}), tp), std::logic_error);
  EXPECT_THROW(computed(Rule::sum, "f", tp, add, ones(varying), ones(varying, {.name = "cp"})), std::logic_error);
}

}  // namespace
}  // namespace dpbench
