// A replica whose state lies in one buffer per dtype: its parameters, behind them its buffers. Its gradients too while
// a link sums them.
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

  // The state as one piece per dtype: all of it, or what is no parameter.
  const std::vector<at::Tensor>& state_in_pieces(bool with_parameters) const {
    return with_parameters ? state.buffers() : behind_parameters;
  }
  // What the model itself has put elsewhere, by set_data(), lies here again; with its values, or without them where
  // main's are to come. Whether a parameter was among it. Throws where values have another shape or type than their
  // place.
  bool put_back(bool with_values);
  // several: micro-batches, between which it matters whether the model writes to parameters.
  void begin_step(bool several);
  // Parameters only where it has not got this step's yet, or is told so; never where it reads main's own.
  void copy_from(const FlatReplica& main, bool parameters_again);

  uint64_t bits_of_parameters() const;  // a hash: the same for the same values
  void read_from(const FlatReplica& main);
  bool written() const;  // the model to a parameter, since versions were noted
  // Throws where it reads main's and the model has written to them.
  void require_unwritten() const;

  // Where there is none, zeros: the sum wants every place filled.
  void pack_gradients();
  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters, tensors;  // tensors: behind the parameters, the buffers
  Flat state;
  std::vector<at::Tensor> places;  // of the tensors: in `state`, or main's for the parameters that it reads
  std::vector<at::Tensor> behind_parameters;
  bool reads_main = false;
  bool up_to_date = false;        // it has main's parameters of this step
  std::vector<int64_t> versions;  // of the parameters, where they were noted
  std::optional<Flat> gradients;
  Phases::Clock::time_point begun, copied, loaded, done;  // of the last forward pass, while phases are on

 private:
  void note_versions();
  std::string name_of(const at::Tensor& tensor) const;
};

using Replicas = std::vector<std::unique_ptr<FlatReplica>>;

}  // namespace dpbench::dp
