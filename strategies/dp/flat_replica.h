// A replica whose state lies in one buffer per dtype, parameters and buffers apart unless `together`; its gradients too
// while a link sums them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "strategies/flat.h"
#include "strategies/replica.h"

namespace dpbench::dp {

struct FlatReplica {
  FlatReplica(const Setup& setup, at::Device device, bool together);

  // What main has of it; but not the parameters where this replica reads main's own.
  void copy_from(const FlatReplica& main);

  void read_from(const FlatReplica& main);
  // Throws where it reads main's and the model has written to them.
  void require_unwritten() const;

  // Where there is none, zeros: the sum wants every place filled.
  void pack_gradients();
  at::Tensor& gradient_of(size_t parameter) const { return replica.trainable()[parameter].tensor.mutable_grad(); }

  Replica replica;
  std::vector<at::Tensor> parameters;
  std::vector<Flat> state;
  bool reads_main = false;
  std::vector<int64_t> versions;  // of the parameters since then
  std::optional<Flat> gradients;
  Phases::Clock::time_point begun, copied, loaded, done;  // of the last forward pass, while phases are on

 private:
  void lay_out(const std::vector<at::Tensor>& tensors) { state.emplace_back(tensors).adopt(tensors); }
};

using Replicas = std::vector<std::unique_ptr<FlatReplica>>;

}  // namespace dpbench::dp
