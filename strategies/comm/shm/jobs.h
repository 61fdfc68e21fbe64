// Converts c10d's tensors and options into a job: what one rank sends, receives and reduces in a shared-memory
// collective. Throws std::invalid_argument for unsupported arguments.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "strategies/comm/shm/collectives.h"

namespace dpbench::shm {

using TensorList = std::vector<at::Tensor>;

Job allreduce_job(const at::Tensor& tensor, const c10d::ReduceOp& op);
Job reduce_job(const at::Tensor& tensor, const c10d::ReduceOp& op, int root, int rank);
Job broadcast_job(const at::Tensor& tensor, int root, int rank);
Job barrier_job();

int checked_root(int64_t root, int world);
std::string shape_of(const at::Tensor& tensor);
// Throws std::invalid_argument unless both lists have the same number of tensors.
void require_pairs(const TensorList& outputs, const TensorList& inputs);

// Cuts a tensor along its first dimension into one piece per rank; sizes[r] is the size of the piece of rank r.
TensorList pieces_of_ranks(const at::Tensor& whole, const std::vector<int64_t>& sizes, int world);

// Throws std::invalid_argument unless the piece that a rank sends to itself has the shape of the piece that it expects
// from itself.
void require_own_piece(const TensorList& to, const TensorList& from, int rank);

// Return the job of a collective. inputs: one tensor for all ranks, or one per rank; empty on a rank that sends
// nothing. outputs: one tensor per source rank; empty on a rank that receives nothing.
Job exchange_job(Kind kind, const TensorList& inputs, const TensorList& outputs, int root);
Job reduce_scatter_job(const TensorList& inputs, const at::Tensor& output, const c10d::ReduceOp& op);

}  // namespace dpbench::shm
