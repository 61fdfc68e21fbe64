#include "workloads/api/optimizer_spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dpbench {

double learning_rate(const OptimizerSpec& spec, int64_t step) {
  if (step < spec.warmup_steps)
    return spec.learning_rate * static_cast<double>(step + 1) / static_cast<double>(spec.warmup_steps);
  if (spec.decay_steps == 0) return spec.learning_rate;
  const double done =
      std::min(1.0, static_cast<double>(step - spec.warmup_steps) / static_cast<double>(spec.decay_steps));
  const double fraction = spec.final_fraction + (1 - spec.final_fraction) * (1 + std::cos(std::numbers::pi * done)) / 2;
  return spec.learning_rate * fraction;
}

double weight_decay(const OptimizerSpec& spec, int64_t dimensions) { return dimensions >= 2 ? spec.weight_decay : 0; }

std::vector<Slot> state_slots(const OptimizerSpec& spec) {
  if (spec.own) return {};
  if (spec.kind == OptimizerSpec::Kind::adam) return {Slot::momentum, Slot::variance, Slot::step};
  return spec.momentum == 0 ? std::vector<Slot>{} : std::vector<Slot>{Slot::momentum_buffer};
}

StateName split_state_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {name, std::nullopt};
  return {name.substr(0, dot), parse_name<Slot>(name.substr(dot + 1))};
}

}  // namespace dpbench
