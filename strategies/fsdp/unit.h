// A unit of fsdp: parameters that are gathered together before they are used, and freed afterwards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/parts/optimizer.h"
#include "strategies/fsdp/sharded_gradients.h"
#include "strategies/fsdp/sharded_parameters.h"
#include "strategies/parts/by_name.h"

namespace dpbench::fsdp {

// One parameter as this rank stores it.
struct ShardedParameter {
  std::string name;
  at::Tensor parameter;      // the parameter's tensor in the model
  at::Tensor rows;           // this rank's rows of the parameter; may be empty
  at::Tensor gradient = {};  // gradient of `rows`; undefined before a step, or if the parameter is not trained
  bool trained = false, used = false;
};

class Unit {
 public:
  Unit(std::string name, const std::vector<Parameter>& parameters, const Storage& storage);

  const std::string& name() const { return name_; }
  bool is_whole() const;
  int64_t held_bytes() const;
  int64_t buffer_bytes() const;
  // Returns the parts of the unit's parameters that this rank keeps between forward and backward pass.
  std::vector<at::Tensor> kept_parts() const;

  // Each of these functions calls the function of the same name for all parameters of the unit, in ShardedParameters or
  // ShardedGradients. clear_gradients() calls ShardedGradients::clear().
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
  bool has(const std::string& name) const;
  // Gathers the whole tensors of this unit's parameters and adds them to `wholes`. rows: this rank's rows, by parameter
  // name. Collective: every rank passes the same names.
  void join(const ByName& rows, ByName& wholes) const;
  // Returns this rank's rows of `whole`, a tensor with the shape of the named parameter.
  at::Tensor rows_in(const std::string& name, const at::Tensor& whole) const;
  // Sets the named parameter to the values of `whole`, which must be equal on all ranks.
  void set(const std::string& name, const at::Tensor& whole) const;

 private:
  // Parameters of a unit that are communicated as one tensor. They have the same dtype, are gathered in the same dtype,
  // and either all or none of them are listed in Storage::parts (gradients that are also summed over other mesh axes).
  struct Bundle {
    std::vector<Parameter> parameters;
    std::vector<size_t> trained;  // indices in `parameters` of the trained parameters
    std::optional<ShardedGradients> gradients;
    std::optional<ShardedParameters> values;
  };
  // Where a parameter of this unit is stored: its Bundle (parameters that are communicated as one tensor), and its
  // index in the bundle.
  struct Place {
    const Bundle* bundle = nullptr;
    size_t index = 0;
  };
  std::optional<Place> find(const std::string& name) const;
  static std::vector<ShardedParameter> parameters_of(const Bundle& bundle);

  std::string name_;
  std::vector<Bundle> bundles_;
};

}  // namespace dpbench::fsdp
