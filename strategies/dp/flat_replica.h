// A replica (a copy of the model) with its state in one flat buffer per dtype: parameters first, then the model's
// buffers. If a link (NCCL or plain copies, see links.h) sums the replicas' gradients, the gradients are packed into
// one flat buffer per dtype too.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/parts/flat.h"
#include "strategies/api/parts/replica.h"

namespace dpbench::dp {

struct FlatReplica {
  FlatReplica(const Setup& setup, at::Device device);

  // Returns the flat state, one tensor per dtype: all of it, or only the model's buffers.
  const std::vector<at::Tensor>& flat_state(bool with_parameters) const {
    return with_parameters ? state.buffers() : flat_buffers;
  }
  // If the model replaced tensors through set_data(), makes them views of the flat state again. If `with_values` is
  // true, keeps their new values, and throws if one has another shape or dtype; otherwise the caller copies values from
  // the main replica. Returns true if a parameter was replaced.
  bool restore_views(bool with_values);
  // several: true if the step has several micro-batches, so that the model's writes to parameters must be detected
  // between them.
  void begin_step(bool several);
  // Copies buffers from the main replica. Also copies parameters, once per step or if `parameters_again` is true,
  // unless they are shared with the main replica.
  void copy_from(const FlatReplica& main, bool parameters_again);

  uint64_t parameters_hash() const;
  void share_parameters_of(const FlatReplica& main);
  bool parameters_written() const;  // true if parameters were written since their autograd versions were saved
  // Throws if parameters are shared with the main replica and the model has written to them.
  void require_unwritten() const;

  // Packs the gradients into one buffer per dtype, with zeros for undefined ones.
  void pack_gradients();
  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters, tensors;  // `tensors` lists the parameters, then the model's buffers
  Flat state;
  // For each tensor, its view in the flat state; for a shared parameter, its view in the main replica's flat state.
  std::vector<at::Tensor> home_views;
  std::vector<at::Tensor> flat_buffers;
  bool shares_main = false;
  bool up_to_date = false;        // true if this replica has the main replica's parameters of the current step
  std::vector<int64_t> versions;  // saved autograd version counters of the parameters
  std::optional<Flat> gradients;
  // Times at which the last forward pass began, had copied the state, had loaded the samples, and was done. Taken only
  // with phase timing.
  Phases::Clock::time_point begun, copied, loaded, done;

 private:
  void save_versions();
  std::string name_of(const at::Tensor& tensor) const;
};

using Replicas = std::vector<std::unique_ptr<FlatReplica>>;

}  // namespace dpbench::dp
