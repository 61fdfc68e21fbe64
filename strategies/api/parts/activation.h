// Activations that carry their distribution over ranks as a type (I, R, V or P of collectives.h), for tensor, sequence
// and context parallelism. A build with assertions stores the type beside the tensor and refuses an operation that
// would give a wrong result or gradient. Other builds store only the tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/parts/collectives.h"

#ifndef DPBENCH_TYPED_ACTIVATIONS
#ifdef NDEBUG
#define DPBENCH_TYPED_ACTIVATIONS 0
#else
#define DPBENCH_TYPED_ACTIVATIONS 1
#endif
#endif

namespace dpbench {

enum class Spread { invariant, replicated, varying, partial };

// The kinds of operations, with different rules for the distribution of the result over ranks: nonlinear in a tensor, a
// sum of tensors, a product of tensors, or a contraction over the dimension that is cut among the ranks, as in a
// row-parallel layer.
enum class Rule { nonlinear, sum, product, contraction };

inline const char* text_of(Spread spread) {
  const char* const texts[] = {"invariant (I)", "replicated (R)", "varying (V)", "partial (P)"};
  return texts[static_cast<size_t>(spread)];
}

// Returns the distribution over ranks (I, R, V or P) of an operation's result. Throws std::logic_error, with the
// operation's name, if the operation cannot combine inputs with these distributions.
inline Spread spread_of(Rule rule, const std::string& operation, const std::vector<Spread>& inputs) {
  const auto count = [&](Spread spread) { return std::count(inputs.begin(), inputs.end(), spread); };
  const auto all = static_cast<std::ptrdiff_t>(inputs.size());
  const auto refuse = [&](const std::string& why) { throw std::logic_error(operation + " " + why); };
  if (rule == Rule::contraction) {
    if (count(Spread::varying) != all) refuse("sums over the cut dimension, so its tensors must be varying (V)");
    return Spread::partial;
  }
  if (const auto invariant = count(Spread::invariant); invariant > 0 && invariant < all)
    refuse(
        "mixes an invariant (I) tensor with others: its gradient would be that of one rank. Use "
        "invariant_to_replicate first.");
  const auto partial = count(Spread::partial);
  if (partial > 0 && rule == Rule::nonlinear) refuse("takes a partial (P) tensor, but is not linear: reduce it first");
  if (partial > 0 && partial < all && rule == Rule::sum)
    refuse("adds a partial (P) tensor and another, which each rank would add: reduce first");
  if (partial > 1 && rule == Rule::product) refuse("multiplies two partial (P) tensors: reduce one first");
  if (partial > 0 && count(Spread::varying) > 0)
    refuse("multiplies a partial (P) tensor with a varying (V) one: reduce first");
  if (partial > 0) return Spread::partial;
  return count(Spread::varying) > 0 ? Spread::varying : inputs.at(0);
}

#if DPBENCH_TYPED_ACTIVATIONS
inline namespace typed {

class Activation {
 public:
  Activation(at::Tensor tensor, const Axis& axis, Spread spread)
      : tensor_(std::move(tensor)), axis_(axis.name), spread_(spread) {}

  const at::Tensor& tensor() const { return tensor_; }
  Spread spread() const { return spread_; }

  // Returns the tensor. operation: the name of the operation that takes it. Throws, with this name, unless the tensor
  // has the distribution `spread` on this axis.
  const at::Tensor& as(Spread spread, const Axis& axis, const std::string& operation) const {
    if (axis.name != axis_)
      throw std::logic_error(operation + " on axis " + axis.name + ": the tensor has its type on axis " + axis_);
    if (spread != spread_)
      throw std::logic_error(operation + " takes a tensor that is " + text_of(spread) + " on axis " + axis_ +
                             ", but this one is " + text_of(spread_));
    return tensor_;
  }

  template <class Function, class... Others>
  friend Activation computed(Rule rule, const std::string& operation, const Axis& axis, const Function& function,
                             const Activation& first, const Others&... others) {
    first.as(first.spread_, axis, operation);
    (others.as(others.spread_, axis, operation), ...);
    const Spread spread = spread_of(rule, operation, {first.spread_, others.spread_...});
    return {function(first.tensor_, others.tensor_...), axis, spread};
  }

 private:
  at::Tensor tensor_;
  std::string axis_;
  Spread spread_;
};

#else
inline namespace untyped {

class Activation {
 public:
  Activation(at::Tensor tensor, const Axis&, Spread) : tensor_(std::move(tensor)) {}

  const at::Tensor& tensor() const { return tensor_; }
  const at::Tensor& as(Spread, const Axis&, const char*) const { return tensor_; }

  template <class Function, class... Others>
  friend Activation computed(Rule, const char*, const Axis& axis, const Function& function, const Activation& first,
                             const Others&... others) {
    return {function(first.tensor_, others.tensor_...), axis, Spread::varying};
  }

 private:
  at::Tensor tensor_;
};

static_assert(sizeof(Activation) == sizeof(at::Tensor));

#endif

inline Activation invariant_to_replicate(const Activation& x, const Axis& axis) {
  return {invariant_to_replicate(x.as(Spread::invariant, axis, "invariant_to_replicate"), axis), axis,
          Spread::replicated};
}

inline Activation partial_to_invariant(const Activation& x, const Axis& axis) {
  return {partial_to_invariant(x.as(Spread::partial, axis, "partial_to_invariant"), axis), axis, Spread::invariant};
}

inline Activation partial_to_replicate(const Activation& x, const Axis& axis) {
  return {partial_to_replicate(x.as(Spread::partial, axis, "partial_to_replicate"), axis), axis, Spread::replicated};
}

inline Activation varying_to_replicate(const Activation& x, const Axis& axis, const Cut& cut) {
  return {varying_to_replicate(x.as(Spread::varying, axis, "varying_to_replicate"), axis, cut), axis,
          Spread::replicated};
}

inline Activation varying_to_invariant(const Activation& x, const Axis& axis, const Cut& cut) {
  return {varying_to_invariant(x.as(Spread::varying, axis, "varying_to_invariant"), axis, cut), axis,
          Spread::invariant};
}

inline Activation partial_to_varying(const Activation& x, const Axis& axis, const Cut& cut) {
  return {partial_to_varying(x.as(Spread::partial, axis, "partial_to_varying"), axis, cut), axis, Spread::varying};
}

inline Activation invariant_to_varying(const Activation& x, const Axis& axis, const Cut& cut) {
  return {invariant_to_varying(x.as(Spread::invariant, axis, "invariant_to_varying"), axis, cut), axis,
          Spread::varying};
}

inline Activation replicate_to_varying(const Activation& x, const Axis& axis, const Cut& cut) {
  return {replicate_to_varying(x.as(Spread::replicated, axis, "replicate_to_varying"), axis, cut), axis,
          Spread::varying};
}

inline Activation varying_to_varying(const Activation& x, const Axis& axis, const Cut& from, const Cut& to) {
  return {varying_to_varying(x.as(Spread::varying, axis, "varying_to_varying"), axis, from, to), axis, Spread::varying};
}

}  // namespace `typed` in builds with assertions, otherwise `untyped`
}  // namespace dpbench
