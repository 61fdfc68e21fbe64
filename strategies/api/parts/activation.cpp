#include "strategies/api/parts/activation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <ATen/record_function.h>

namespace dpbench {
namespace {

using WeightPart = TensorType::Part;
using OperationInputs = c10::ArrayRef<const c10::IValue>;
// A tensor's type on one axis. nullopt: the tensor has no type and needs no gradient, so it fits every type.
using MaybeType = std::optional<TensorType>;

constexpr TensorType unknown_type{};

enum class OperationKind {
  fresh,   // the result does not depend on the values of the inputs
  linear,  // linear in the first tensor: views, casts, sums over elements
  rows,    // linear too: selects rows of the first tensor
  copy,    // overwrites the first tensor with the second
  fill,    // overwrites elements of the first tensor with the third argument, a number or a tensor
  sum,
  product,
  matrices,    // a product of the first two tensors, plus a bias
  bias_first,  // a bias, plus a product of the second and third tensor
  nonlinear,
  other,  // not known: may be linear or not
};

constexpr std::pair<OperationKind, std::string_view> operation_kinds[] = {
    {OperationKind::fresh, " empty_like zeros_like ones_like full_like rand_like randn_like zero fill "},
    {OperationKind::linear,
     " view view_as reshape reshape_as alias transpose t permute movedim contiguous clone to _to_copy type_as detach "
     "narrow slice select unbind chunk split split_with_sizes squeeze unsqueeze flatten unflatten expand expand_as "
     "repeat repeat_interleave gather index tril triu neg sum mean cumsum flip roll masked_select "},
    {OperationKind::rows, " embedding index_select "},
    {OperationKind::copy, " copy "},
    {OperationKind::fill, " masked_fill constant_pad_nd "},
    {OperationKind::sum, " add sub subtract rsub cat concat stack "},
    {OperationKind::product, " mul multiply div divide "},
    {OperationKind::matrices, " mm bmm matmul mv linear _linear_pointwise conv1d conv2d conv3d convolution "},
    {OperationKind::bias_first, " addmm addmv baddbmm "},
    {OperationKind::nonlinear,
     " relu gelu silu sigmoid tanh softplus elu leaky_relu hardtanh clamp clamp_min clamp_max abs exp log sqrt rsqrt "
     "pow square reciprocal softmax _softmax log_softmax _log_softmax logsumexp amax amin max min maximum minimum "
     "layer_norm native_layer_norm rms_norm group_norm batch_norm native_batch_norm scaled_dot_product_attention "
     "cross_entropy_loss nll_loss nll_loss_forward mse_loss "},
};

// Returns the operation's name without library and without the underscore of operations in place: relu for aten::relu_.
std::string_view operation_name(std::string_view name) {
  if (const size_t colon = name.find("::"); colon != std::string_view::npos) name.remove_prefix(colon + 2);
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

OperationKind operation_kind_of(const std::string& name) {
  for (const auto& [kind, all] : operation_kinds)
    if (all.find(" " + name + " ") != std::string_view::npos) return kind;
  return OperationKind::other;
}

// Returns the defined tensors in an input or output of an operation.
std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  std::vector<at::Tensor> found;
  if (value.isTensor()) found.push_back(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList())
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor()) found.push_back(item.toTensor());
  std::erase_if(found, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return found;
}

// Returns advice for the error message about a tensor that has the type `given` where the type `due` is needed.
std::string remedy_for(Spread given, Spread due) {
  const bool whole = given == Spread::invariant || given == Spread::replicated;
  if (due == Spread::partial && whole) return "Every rank already has the whole sum: do not sum it again";
  if (due == Spread::partial) return "It is a piece, not an addend: gather it, or cut the weight by its inputs";
  if (due == Spread::varying) return "It is not a piece of this rank: cut it, or reduce it in pieces";
  if (given == Spread::partial) return "Sum it over the ranks first";
  if (given == Spread::varying) return "Gather the ranks' pieces first";
  return due == Spread::replicated ? "Use invariant_to_replicate first, so that its gradient is summed"
                                   : "Its gradient is that of one rank: sum it where the tensor became replicated";
}

thread_local TypeFindings* findings_of_thread = nullptr;
thread_local TypeTracker* tracker_of_thread = nullptr;

}  // namespace

// Stores the types of a pass's tensors. LibTorch calls begin() and end() for each operation of the pass. An operation
// that runs inside another is not typed.
class TypeTracker {
 public:
  TypeTracker() : before_(tracker_of_thread), findings_(findings_of_thread) {
    if (!findings_) own_.emplace(), findings_ = &*own_;
    tracker_of_thread = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~TypeTracker() {
    at::removeCallback(handle_);
    tracker_of_thread = before_;
  }
  TypeTracker(const TypeTracker&) = delete;
  TypeTracker& operator=(const TypeTracker&) = delete;

  // Returns the thread's tracker; null if operations are not typed now.
  static TypeTracker* active() {
    TypeTracker* const tracker = tracker_of_thread;
    return tracker && tracker->inside == 0 ? tracker : nullptr;
  }

  int inside = 0;     // number of operations, untyped calls and backward passes that are running
  std::string block;  // name of the model's block

  void set(const at::Tensor& tensor, const TensorTypes& types) {
    if (types.empty())
      known_.erase(tensor.unsafeGetTensorImpl());
    else
      known_.insert_or_assign(tensor.unsafeGetTensorImpl(), Known{Weak(tensor.getIntrusivePtr()), types});
  }

  void set(const at::Tensor& tensor, const std::string& axis, const TensorType& type) {
    axes_.insert(axis);
    TensorTypes types = types_of(tensor);
    types[axis] = type;
    set(tensor, types);
  }

  MaybeType type_of(const at::Tensor& tensor, const std::string& axis) const {
    if (const auto known = known_.find(tensor.unsafeGetTensorImpl()); known != known_.end())
      if (const auto type = known->second.types.find(axis); type != known->second.types.end()) return type->second;
    return tensor.requires_grad() ? MaybeType(unknown_type) : std::nullopt;
  }

  // Records a wrong pair if the tensor has a known type other than `due`.
  void require(const std::string& operation, const at::Tensor& tensor, const std::string& axis, Spread due) {
    const MaybeType type = type_of(tensor, axis);
    if (!type || !type->spread || *type->spread == due) return;
    found(place(operation, axis) + " takes a tensor that is " + text_of(due) + ", but this one is " +
          text_of(*type->spread) + ". " + remedy_for(*type->spread, due));
  }

  TensorTypes called(const std::string& operation, const std::vector<at::Tensor>& inputs, const std::string& axis,
                     Spread from, Spread to) {
    for (const at::Tensor& input : inputs) {
      const MaybeType type = type_of(input, axis);
      ++(type && !type->spread ? findings_->untyped : findings_->typed);
      require(operation, input, axis, from);
    }
    throw_if_own();
    axes_.insert(axis);
    TensorTypes types;
    for (const std::string& other : axes_)
      if (const MaybeType type = combined(Rule::product, place(operation, other), inputs, other)) types[other] = *type;
    types[axis] = {.spread = to};
    return types;
  }

  // Throws the first wrong pair, if there is one and the caller has no TypeFindings object that stores it.
  void throw_if_own() const {
    if (own_ && !own_->mistake.empty()) throw std::logic_error(own_->mistake);
  }

 private:
  // The weak pointer keeps the address of a tensor that was freed from being used again.
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Known {
    Weak tensor;
    TensorTypes types;
  };
  struct Running : at::ObserverContext {
    explicit Running(TensorTypes types) : result(std::move(types)) {}
    TensorTypes result;
  };

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    TypeTracker* const tracker = active();
    if (!tracker || tracker->axes_.empty()) return nullptr;
    auto running = std::make_unique<Running>(tracker->result_of(function.name(), function.inputs()));
    ++tracker->inside;
    return running;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    TypeTracker* const tracker = tracker_of_thread;
    if (!context || !tracker) return;
    --tracker->inside;
    for (const c10::IValue& output : function.outputs())
      for (const at::Tensor& tensor : tensors_in(output)) tracker->set(tensor, static_cast<Running&>(*context).result);
  }

  std::string place(const std::string& operation, const std::string& axis) const {
    return operation + (block.empty() ? "" : " in " + block) + " on axis " + axis;
  }

  void found(const std::string& mistake) {
    if (findings_->mistake.empty()) findings_->mistake = mistake;
  }

  TensorTypes types_of(const at::Tensor& tensor) const {
    const auto known = known_.find(tensor.unsafeGetTensorImpl());
    return known == known_.end() ? TensorTypes() : known->second.types;
  }

  TensorTypes result_of(std::string_view full, OperationInputs values) {
    TensorTypes result;
    const std::string name(operation_name(full));
    const OperationKind kind = operation_kind_of(name);
    if (kind == OperationKind::fresh) return result;
    const bool foreign = kind == OperationKind::other && !full.starts_with("aten::");
    for (const std::string& axis : axes_)
      if (const MaybeType type = result_on(axis, name, kind, values)) result[axis] = foreign ? unknown_type : *type;
    return result;
  }

  MaybeType result_on(const std::string& axis, const std::string& name, OperationKind kind, OperationInputs values) {
    const std::string where = place(name, axis);
    if (kind == OperationKind::matrices || kind == OperationKind::bias_first)
      return of_matrices(axis, where, values, kind == OperationKind::bias_first);
    std::vector<at::Tensor> inputs;
    for (const c10::IValue& value : values.slice(kind == OperationKind::copy ? 1 : 0))
      for (const at::Tensor& tensor : tensors_in(value)) inputs.push_back(tensor);
    // A linear operation reads values only from its first tensor, masks and indices. Further floating-point tensors, as
    // in view_as(), provide only a shape or dtype, so their types do not count.
    if (kind == OperationKind::linear && !inputs.empty())
      inputs.erase(std::remove_if(inputs.begin() + 1, inputs.end(),
                                  [](const at::Tensor& one) { return one.is_floating_point(); }),
                   inputs.end());
    // A fill is a sum of the kept and the filled elements; its mask has no type.
    const bool fills = kind == OperationKind::fill;
    if (fills)
      inputs.erase(std::remove_if(inputs.begin() + 1, inputs.end(),
                                  [](const at::Tensor& one) { return one.scalar_type() == at::kBool; }),
                   inputs.end());
    const size_t addend = fills ? 2 : 1;
    if ((fills || kind == OperationKind::sum) && values.size() > addend && values[0].isTensor() &&
        changes_sum(values[addend]))
      inputs.emplace_back();
    const bool sums = kind == OperationKind::sum || (fills && inputs.size() > 1);
    if (kind == OperationKind::rows)
      if (const MaybeType table = type_of(inputs[0], axis); table && table->part == WeightPart::outputs)
        return TensorType{.spread = Spread::partial};
    if (kind == OperationKind::other)
      for (const at::Tensor& input : inputs)
        if (const MaybeType type = type_of(input, axis); type && type->spread == Spread::partial) return unknown_type;
    const bool nonlinear = kind == OperationKind::nonlinear || kind == OperationKind::other;
    return combined(sums ? Rule::sum : nonlinear ? Rule::nonlinear : Rule::product, where, inputs, axis);
  }

  // True for a number that differs from the sum of such numbers of all ranks. Zero and infinity do not.
  static bool changes_sum(const c10::IValue& value) {
    return value.isScalar() && value.toScalar().toDouble() != 0 && !std::isinf(value.toScalar().toDouble());
  }

  // Returns the type of an operation's result; unknown after a wrong pair. The caller passes an undefined tensor in
  // place of a number.
  MaybeType combined(Rule rule, const std::string& where, const std::vector<at::Tensor>& inputs,
                     const std::string& axis) {
    std::vector<Spread> spreads;
    WeightPart part = WeightPart::none;
    bool constants = false, invariant = true;
    for (const at::Tensor& input : inputs) {
      const MaybeType type = input.defined() ? type_of(input, axis) : std::nullopt;
      constants = constants || !type;
      if (!type) continue;
      if (!type->spread) return unknown_type;
      if (spreads.empty() && rule == Rule::product) part = type->part;
      invariant = invariant && *type->spread == Spread::invariant;
      spreads.push_back(used(input, *type->spread));
    }
    if (spreads.empty()) return std::nullopt;
    if (invariant) return TensorType{.spread = Spread::invariant};
    // A sum of a partial tensor and a constant is wrong, because every rank would add the constant. The entry
    // `replicated` makes spread_of() refuse the sum.
    if (rule == Rule::sum && constants && std::ranges::count(spreads, Spread::partial) > 0)
      spreads.push_back(Spread::replicated);
    return checked(rule, where, spreads, part);
  }

  // Returns the type as which an operation uses a tensor: replicated for an invariant tensor that needs no gradient,
  // otherwise the tensor's own type. Invariant and replicated tensors differ only in their gradients.
  static Spread used(const at::Tensor& tensor, Spread spread) {
    return spread == Spread::invariant && !tensor.requires_grad() ? Spread::replicated : spread;
  }

  MaybeType of_matrices(const std::string& axis, const std::string& where, OperationInputs values, bool bias_first) {
    std::vector<at::Tensor> inputs(3);
    for (size_t i = 0; i < std::min<size_t>(values.size(), 3); ++i)
      if (values[i].isTensor()) inputs[i] = values[i].toTensor();
    if (bias_first) std::ranges::rotate(inputs, inputs.begin() + 1);
    const at::Tensor bias = inputs[2];
    inputs.pop_back();
    const MaybeType product = product_of(inputs, where, axis);
    const MaybeType added = bias.defined() ? type_of(bias, axis) : std::nullopt;
    if (!product) return added;
    if (!product->spread || (added && !added->spread)) return unknown_type;
    const bool constant = bias.defined() && !added;
    if (!added && !(constant && product->spread == Spread::partial)) return product;
    const Spread addend = constant                               ? Spread::replicated
                          : product->spread == Spread::invariant ? *added->spread
                                                                 : used(bias, *added->spread);
    return checked(Rule::sum, where, {*product->spread, addend}, WeightPart::none);
  }

  // A weight that is cut by its inputs needs a piece of the input, and gives a partial sum. A weight that is cut by its
  // outputs needs the whole input.
  MaybeType product_of(const std::vector<at::Tensor>& factors, const std::string& where, const std::string& axis) {
    for (size_t i = 0; i < 2; ++i) {
      const MaybeType weight = type_of(factors[i], axis), other = type_of(factors[1 - i], axis);
      if (!weight || weight->part == WeightPart::none || (other && !other->spread)) continue;
      // A replicated or constant input counts as varying, because a view may have narrowed it to this rank's piece.
      Spread piece = other ? used(factors[1 - i], *other->spread) : Spread::replicated;
      if (weight->part == WeightPart::inputs)
        return checked(Rule::contraction, where,
                       {Spread::varying, piece == Spread::replicated ? Spread::varying : piece}, WeightPart::none);
      if (piece != Spread::varying) continue;
      found(where + " takes a varying (V) input, but its weight is cut by its outputs: gather the input first");
      return unknown_type;
    }
    MaybeType product = combined(Rule::product, where, factors, axis);
    if (product) product->part = WeightPart::none;
    return product;
  }

  MaybeType checked(Rule rule, const std::string& where, const std::vector<Spread>& spreads, WeightPart part) {
    try {
      const Spread result = spread_of(rule, where, spreads);
      return TensorType{.spread = result, .part = result == Spread::varying ? part : WeightPart::none};
    } catch (const std::logic_error& error) {
      found(error.what());
      return unknown_type;
    }
  }

  TypeTracker* before_;
  TypeFindings* findings_;
  std::optional<TypeFindings> own_;
  at::CallbackHandle handle_ = 0;
  std::set<std::string> axes_;
  std::unordered_map<c10::TensorImpl*, Known> known_;
};

const char* text_of(Spread spread) {
  constexpr const char* texts[] = {"invariant (I)", "replicated (R)", "varying (V)", "partial (P)"};
  return texts[static_cast<size_t>(spread)];
}

Spread spread_of(Rule rule, const std::string& operation, const std::vector<Spread>& inputs) {
  const auto count = [&](Spread spread) { return std::ranges::count(inputs, spread); };
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

TypeFindings::TypeFindings() : before_(std::exchange(findings_of_thread, this)) {}
TypeFindings::~TypeFindings() { findings_of_thread = before_; }

TypedPass::TypedPass() {
#ifdef NDEBUG
  if (!findings_of_thread) return;
#endif
  tracker_ = std::make_unique<TypeTracker>();
}
TypedPass::~TypedPass() = default;

UntypedOperations::UntypedOperations() : tracker_(tracker_of_thread) {
  if (tracker_) ++tracker_->inside;
}
UntypedOperations::~UntypedOperations() {
  if (tracker_) --tracker_->inside;
}

void set_spread(const at::Tensor& tensor, const Axis& axis, Spread spread, std::optional<int64_t> cut_dim) {
  TypeTracker* const tracker = TypeTracker::active();
  if (!tracker || axis.size == 1) return;
  const WeightPart part = !cut_dim ? WeightPart::none : *cut_dim == 0 ? WeightPart::outputs : WeightPart::inputs;
  tracker->set(tensor, axis.name, {.spread = spread, .part = part});
}

std::optional<Spread> spread_on(const at::Tensor& tensor, const Axis& axis) {
  const TypeTracker* const tracker = TypeTracker::active();
  const MaybeType type = tracker && axis.size > 1 ? tracker->type_of(tensor, axis.name) : std::nullopt;
  return type ? type->spread : std::nullopt;
}

void require_spread(const std::string& operation, const at::Tensor& tensor, const Axis& axis, Spread spread) {
  TypeTracker* const tracker = TypeTracker::active();
  if (!tracker || axis.size == 1) return;
  tracker->require(operation, tensor, axis.name, spread);
  tracker->throw_if_own();
}

at::Tensor sum_of_piece(const at::Tensor& tensor, const Axis& axis) {
  if (spread_on(tensor, axis) == Spread::varying) set_spread(tensor, axis, Spread::partial);
  return tensor;
}

void name_block(const std::string& name) {
  if (TypeTracker* const tracker = TypeTracker::active()) tracker->block = name;
}

TypedCall::TypedCall(const std::string& operation, const std::vector<at::Tensor>& inputs, const Axis& axis, Spread from,
                     Spread to) {
  if (TypeTracker* const tracker = TypeTracker::active(); tracker && axis.size > 1)
    result_ = tracker->called(operation, inputs, axis.name, from, to);
}

at::Tensor TypedCall::run(const std::function<at::Tensor()>& call) const {
  if (!result_) return call();
  at::Tensor tensor;
  {
    const UntypedOperations inner;
    tensor = call();
  }
  if (TypeTracker* const tracker = TypeTracker::active()) tracker->set(tensor, *result_);
  return tensor;
}

}  // namespace dpbench
