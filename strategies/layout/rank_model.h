// The part of a model that one rank of a layout stores. The model is divided over pp into stages, over tp and ep into
// pieces of tensors, and over shard into rows of these pieces.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/fsdp/units.h"
#include "strategies/layout/axes.h"
#include "strategies/layout/options.h"
#include "strategies/pipeline/stages.h"
#include "strategies/tensor/tensors.h"

namespace dpbench::layout {

// A parameter of this rank. stored: the parameter itself, or this rank's rows of it. `stored` also holds the gradient.
struct Held {
  const pipeline::Placed* placed;
  at::Tensor stored;
  const std::string& name() const { return placed->name; }
};
// Returns the gradients of these parameters; leaves out parameters without a gradient.
std::vector<at::Tensor> gradients_of(const std::vector<Held>& parameters);

struct RankModel {
  // Broadcasts rank 0's model to all ranks, reduces the replica's model to this rank's part, and frees the rest.
  // Collective. Throws UsageError if the model cannot be divided as the mesh and the options ask.
  RankModel(const Mesh& mesh, const Options& options, const Workload& workload, const Replica& replica,
            const std::vector<int>& rank_of_stages, bool allows_idle);
  // Not copyable: `own` holds pointers to elements of `parameters`. In a copy, they would point into the original
  // object.
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  template <class Predicate>
  std::vector<Held> own_if(const Predicate& predicate) const {
    std::vector<Held> all;
    std::ranges::copy_if(own, std::back_inserter(all), predicate);
    return all;
  }
  std::vector<Held> trainable() const {
    return own_if([](const Held& one) { return one.placed->tensor.requires_grad(); });
  }
  bool is_cut(const Held& one) const { return tensors.is_cut(one.name()); }
  bool is_partial(const Held& one) const { return tensors.is_partial(one.name(), options.tensor.sequence); }
  bool is_expert(const Held& one) const { return experts.is_cut(one.name()); }
  int rank_of(int stage) const { return stages[static_cast<size_t>(stage)].rank; }
  // Returns the rank on the axis pp that owns a tensor, which is the rank of the tensor's first stage. Of all ranks
  // with this tensor, only the owner adds it to norms and saves it in checkpoints.
  int owner_of(const pipeline::Placed& one) const { return rank_of(one.stages.front()); }
  // True if this rank adds its elements of a parameter to norms and saves them in checkpoints. Several ranks may have
  // the same elements, but only one counts them: on the axis pp the owner (see owner_of()); on tp and ep, if the
  // parameter is not cut, the first rank.
  bool counts(const Held& one) const;
  std::vector<int> ranks_of(const pipeline::Placed& one) const;  // the ranks on the axis pp that have this tensor
  bool is_mine(const pipeline::Placed& one) const;
  // Take a whole tensor. rank_piece() returns this rank's piece of it after the cuts over tp and ep, and stored_part()
  // the part of the piece that this rank stores after sharding.
  at::Tensor rank_piece(const std::string& name, const at::Tensor& whole) const;
  at::Tensor stored_part(const std::string& name, const at::Tensor& whole) const;
  void clear_gradients();

  const Options& options;
  const Replica& replica;
  Axes axes;
  std::vector<pipeline::Stage> stages;
  // `tensors` are the tensors that are cut over the axis tp, `experts` those that are cut over ep.
  tensor::CutTensors tensors, experts;
  std::vector<pipeline::Placed> parameters, buffers;
  // The units (parameters that are gathered together) of sharded parameters; nullopt if parameters are not sharded.
  std::optional<fsdp::Units> units;
  std::vector<Held> own;  // parameters of this rank's stages, including frozen ones

 private:
  std::vector<pipeline::Stage> cut(const Workload& workload, const std::vector<int>& rank_of_stages) const;
  void shard();
  void keep_own();
};

}  // namespace dpbench::layout
