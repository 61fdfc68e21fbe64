// The types of activations that several ranks compute together: how a tensor is distributed over the ranks of a mesh
// axis (I, R, V or P of collectives.h). During a TypedPass, each operation derives the types of its results from the
// types of its inputs. A wrong pair is an operation together with input types for which its result or gradient would be
// wrong, such as a collective on a tensor of another type than it takes, a nonlinear function of a partial sum, or the
// sum of a replicated bias and a partial sum. Wrong pairs are found whatever values the tensors have, and models need
// no code for it.
//
// A tensor without a type that needs no gradient, such as a mask, fits every type. A tensor of unknown type, such as
// the result of an operation outside of LibTorch, fits too, but is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench {

class TypeTracker;

enum class Spread { invariant, replicated, varying, partial };
const char* text_of(Spread spread);

// The kinds of operations, with different rules for the distribution of the result over ranks: nonlinear in a tensor, a
// sum of tensors, a product of tensors, or a contraction over the dimension that is cut among the ranks, as in a
// row-parallel layer.
enum class Rule { nonlinear, sum, product, contraction };

// Returns the distribution of an operation's result. Throws std::logic_error, with the operation's name, if the
// operation cannot combine these inputs.
Spread spread_of(Rule rule, const std::string& operation, const std::vector<Spread>& inputs);

// The type of a tensor on an axis. part: the features of a layer by which a varying weight is cut.
struct TensorType {
  enum class Part { none, outputs, inputs };
  std::optional<Spread> spread;  // nullopt: unknown
  Part part = Part::none;
};
using TensorTypes = std::map<std::string, TensorType>;  // by the axis's name

// While an object of this class exists, the typed passes of its thread store their first wrong pair in it.
class TypeFindings {
 public:
  TypeFindings();
  ~TypeFindings();
  TypeFindings(const TypeFindings&) = delete;
  TypeFindings& operator=(const TypeFindings&) = delete;

  std::string mistake;  // the first wrong pair; empty: none
  int64_t typed = 0;    // number of inputs of collectives, except those of unknown type
  int64_t untyped = 0;  // number of inputs of collectives of unknown type

 private:
  TypeFindings* before_;
};

// While an object of this class exists, the operations of its thread propagate types. Without a TypeFindings object, it
// does nothing, except in a build with assertions: there a wrong pair throws std::logic_error in the next collective.
class TypedPass {
 public:
  TypedPass();
  ~TypedPass();
  TypedPass(const TypedPass&) = delete;
  TypedPass& operator=(const TypedPass&) = delete;

 private:
  std::unique_ptr<TypeTracker> tracker_;
};

// While an object of this class exists, operations are not typed. Backward passes need it.
class UntypedOperations {
 public:
  UntypedOperations();
  ~UntypedOperations();
  UntypedOperations(const UntypedOperations&) = delete;
  UntypedOperations& operator=(const UntypedOperations&) = delete;

 private:
  TypeTracker* tracker_;
};

// Outside of a TypedPass and on an axis of one rank, the following functions and TypedCall neither set nor check types.

// Gives a parameter or a sample its type. cut_dim: the dimension in which a varying parameter is cut: 0 for the outputs
// of a layer, otherwise its inputs. A layer whose weight is cut by its inputs gives partial sums.
void set_spread(const at::Tensor& tensor, const Axis& axis, Spread spread, std::optional<int64_t> cut_dim = {});
// Returns the tensor's type; nullopt if it has none or its type is unknown.
std::optional<Spread> spread_on(const at::Tensor& tensor, const Axis& axis);
// Records a wrong pair if the tensor has a known type other than `spread`.
void require_spread(const std::string& operation, const at::Tensor& tensor, const Axis& axis, Spread spread);
// Returns the tensor. Changes its type from varying to partial: the caller has added up the elements of its own piece,
// so each rank has an addend of the sum over all pieces.
at::Tensor sum_of_piece(const at::Tensor& tensor, const Axis& axis);
// Sets the name of the model's block that runs now, for messages.
void name_block(const std::string& name);

// A collective of the forward pass that takes tensors of the type `from` and returns one of the type `to`. The
// constructor records a wrong pair if an input has a known type other than `from`.
class TypedCall {
 public:
  TypedCall(const std::string& operation, const std::vector<at::Tensor>& inputs, const Axis& axis, Spread from,
            Spread to);
  // Returns the result of the call. Its own operations are not typed.
  at::Tensor run(const std::function<at::Tensor()>& call) const;

 private:
  std::optional<TensorTypes> result_;
};

}  // namespace dpbench
