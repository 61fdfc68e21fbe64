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

  // Returns the flat buffers, one per dtype, of parameters and the model's buffers, or only of the model's buffers.
  const std::vector<at::Tensor>& flat_state(bool with_parameters) const {
    return with_parameters ? state.buffers() : flat_buffers;
  }
  // A model may replace its tensors through set_data(). This function makes them views of the flat state again, and
  // returns true if a parameter was replaced. with_values = true: copies the new values to the flat state, and throws
  // if a tensor has another shape or dtype; false: the caller copies the main replica's values there.
  bool restore_views(bool with_values);
  // Call at the start of a step. several: true if the step has several micro-batches; writes of the model to its
  // parameters must then be detected between them.
  void begin_step(bool several);
  // Copies the model's buffers from the main replica, and also its parameters, if the step has not copied them yet or
  // `parameters_again` is true. Parameters shared with the main replica are not copied.
  void copy_from(const FlatReplica& main, bool parameters_again);

  uint64_t parameters_hash() const;
  void share_parameters_of(const FlatReplica& main);
  // True if a write has changed the parameters' autograd version counters since they were saved.
  bool parameters_written() const;
  // Throws if parameters are shared with the main replica and the model has written to them.
  void require_unwritten() const;

  // Packs the gradients into one buffer per dtype, with zeros for undefined ones.
  void pack_gradients();
  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters, tensors;  // `tensors` lists the parameters, then the model's buffers
  Flat state;
  // For each tensor, its view in this replica's flat buffers. A parameter shared with the main replica has its view in
  // that replica's flat buffers.
  std::vector<at::Tensor> home_views;
  std::vector<at::Tensor> flat_buffers;
  bool shares_main = false;
  bool up_to_date = false;        // true if this replica has the main replica's parameters of the current step
  std::vector<int64_t> versions;  // saved autograd version counters of the parameters
  std::optional<Flat> gradients;
  // The times at which the last forward pass began, had copied the state from replica 0, had loaded the samples, and
  // ended. Measured only with phase timing.
  Phases::Clock::time_point begun, copied, loaded, done;

 private:
  void save_versions();
  std::string name_of(const at::Tensor& tensor) const;
};

using Replicas = std::vector<std::unique_ptr<FlatReplica>>;

}  // namespace dpbench::dp
