// A unit: parameters that are gathered together before they are used, and freed afterwards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategies/fsdp/sharded_gradients.h"
#include "strategies/fsdp/sharded_parameters.h"
#include "strategies/parts/optimizer.h"

namespace dpbench::fsdp {

// One parameter as this rank stores it.
struct ShardedParameter {
  std::string name;
  at::Tensor parameter;      // the model's tensor
  at::Tensor rows;           // this rank's rows of it; may have none
  at::Tensor gradient = {};  // gradient of the rows; undefined if not trained, or before a step
  bool trained = false, used = false;
};

class Unit {
 public:
  Unit(std::string name, const std::vector<Parameter>& parameters, const Storage& storage);

  const std::string& name() const { return name_; }
  bool is_whole() const;
  int64_t held_bytes() const;
  int64_t buffer_bytes() const;

  // See ShardedParameters and ShardedGradients.
  void begin_gather();
  void gather();
  void free();
  void free_between();
  void begin_update();
  void begin_reduce(double share);
  void finish_reduce(bool last);
  void finish();
  void clear_gradients();

  std::vector<ShardedParameter> parameters() const;
  // For each parameter, gathers the rows that choose() returns on each rank, and calls visit(name, unsharded tensor).
  // If choose() returns an undefined tensor on one rank, it must do so on all. Collective.
  void join(const std::function<at::Tensor(const ShardedParameter&)>& choose,
            const std::function<void(const std::string& name, const at::Tensor& whole)>& visit) const;
  // Replaces the values of the parameters by value_of(name).
  void set(const std::function<at::Tensor(const std::string& name)>& value_of);
  // Returns this rank's rows of a tensor with the shape of the parameter of this name.
  std::optional<at::Tensor> rows_in(const std::string& name, const at::Tensor& whole) const;

 private:
  // Parameters that are communicated as one tensor: they have the same dtype and are gathered in the same dtype.
  struct Bundle {
    std::vector<Parameter> parameters;
    std::vector<size_t> trained;  // indices in `parameters`
    std::optional<ShardedGradients> gradients;
    std::optional<ShardedParameters> values;
  };
  static std::vector<ShardedParameter> parameters_of(const Bundle& bundle);

  std::string name_;
  std::vector<Bundle> bundles_;
};

}  // namespace dpbench::fsdp
