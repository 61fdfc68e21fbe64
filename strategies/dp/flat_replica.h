// A replica with its state in one flat buffer per dtype: parameters first, then buffers. Gradients are packed the same
// way for a link.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategies/parts/flat.h"
#include "strategies/parts/replica.h"

namespace dpbench::dp {

struct FlatReplica {
  FlatReplica(const Setup& setup, at::Device device);

  // Returns the flat state, one tensor per dtype: all of it, or only the buffers.
  const std::vector<at::Tensor>& flat_state(bool with_parameters) const {
    return with_parameters ? state.buffers() : flat_buffers;
  }
  // Tensors that the model replaced through set_data() become views of the flat state again. Keeps their new values if
  // `with_values`, else leaves the values for a copy from main. Returns true if a parameter was replaced. Throws if a
  // new value has another shape or dtype.
  bool restore_views(bool with_values);
  // several: the step has several micro-batches, so writes of the model to parameters must be detected between them.
  void begin_step(bool several);
  // Copies buffers, and parameters once per step or if `parameters_again`; never parameters shared with main.
  void copy_from(const FlatReplica& main, bool parameters_again);

  uint64_t parameters_hash() const;
  void share_parameters_of(const FlatReplica& main);
  bool parameters_written() const;  // by the model, since save_versions()
  // Throws if parameters are shared with main and the model has written to them.
  void require_unwritten() const;

  // Packs the gradients into one buffer per dtype, with zeros for undefined ones.
  void pack_gradients();
  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters, tensors;  // tensors: the parameters, then the buffers
  Flat state;
  std::vector<at::Tensor> home_views;  // of `tensors`: in `state`, or in main's for shared parameters
  std::vector<at::Tensor> flat_buffers;
  bool shares_main = false;
  bool up_to_date = false;        // has main's parameters of this step
  std::vector<int64_t> versions;  // saved version counters of the parameters
  std::optional<Flat> gradients;
  Phases::Clock::time_point begun, copied, loaded, done;  // of the last forward pass, while phases are on

 private:
  void save_versions();
  std::string name_of(const at::Tensor& tensor) const;
};

using Replicas = std::vector<std::unique_ptr<FlatReplica>>;

}  // namespace dpbench::dp
