// The optimizer of a workload: its kind, its settings and the schedule of its learning rate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/base/names.h"

namespace dpbench {

// An optimizer that a workload defines itself. The step of one parameter must not depend on other parameters.
class OwnOptimizer {
 public:
  virtual ~OwnOptimizer() = default;
  // Steps one parameter: returns its new value. rate: the learning rate of this step. state: the optimizer's state
  // tensors for this parameter, by name; empty before the first step. step() must replace these tensors by new ones
  // instead of changing them.
  virtual at::Tensor step(const at::Tensor& parameter, const at::Tensor& gradient, double rate,
                          std::vector<std::pair<std::string, at::Tensor>>& state) const = 0;
};

struct OptimizerSpec {
  enum class Kind { sgd, adam };
  Kind kind = Kind::sgd;
  double learning_rate = 1e-3;                        // the highest learning rate that the schedule reaches
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // settings of Adam, unused by SGD
  // Decoupled weight decay as in AdamW, for parameters with two or more dimensions. Must be 0 for SGD.
  double weight_decay = 0;
  double momentum = 0;  // momentum of SGD, as in torch's without dampening; must be 0 for Adam
  // The learning rate rises linearly in the first warmup_steps steps, then falls as a cosine in decay_steps steps to
  // final_fraction times its highest value, and stays there. If decay_steps is 0, it stays at its highest value.
  int64_t warmup_steps = 0, decay_steps = 0;
  double final_fraction = 0;
  // The workload's own optimizer, which replaces `kind` and its settings; null if there is none. Only strategies in
  // Python support it.
  std::shared_ptr<const OwnOptimizer> own = {};
};

// Returns the learning rate of a step, counted from 0.
double learning_rate(const OptimizerSpec& spec, int64_t step);
inline bool is_scheduled(const OptimizerSpec& spec) { return spec.warmup_steps > 0 || spec.decay_steps > 0; }
// Returns the weight decay for a parameter, which depends on its number of dimensions.
double weight_decay(const OptimizerSpec& spec, int64_t dimensions);

// The kinds of tensors in an optimizer's state. SGD has momentum_buffer, Adam has the others.
enum class Slot { momentum_buffer, momentum, variance, step };
template <>
inline constexpr auto enum_names<Slot> =
    std::to_array<std::string_view>({"momentum_buffer", "momentum", "variance", "step"});

// Returns the slots of each parameter's optimizer state; none for an optimizer that the workload defines itself.
std::vector<Slot> state_slots(const OptimizerSpec& spec);
// Returns the name of an optimizer-state tensor, "<parameter>.<slot>".
inline std::string state_name(const std::string& parameter, Slot slot) { return parameter + "." + slot; }
// The parts of the name of an optimizer-state tensor, "<parameter>.<slot>". `slot` is empty if the name ends in no
// known slot.
struct StateName {
  std::string parameter;
  std::optional<Slot> slot;
};
StateName split_state_name(const std::string& name);

}  // namespace dpbench
