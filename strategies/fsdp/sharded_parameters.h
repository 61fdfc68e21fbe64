// Parameters of one dtype that are gathered together before they are used, and freed afterwards. Each rank keeps some
// rows of each parameter.
#pragma once

#include <vector>

#include "strategies/fsdp/row_cut.h"
#include "strategies/fsdp/storage.h"
#include "strategies/parts/compat.h"

namespace dpbench::fsdp {

class ShardedParameters {
 public:
  // Keeps this rank's rows of the tensors, which must be equal on all ranks. Frees the whole tensors if
  // Storage::frees() is true.
  ShardedParameters(const std::vector<at::Tensor>& tensors, const Storage& storage);

  // begin_gather() starts to gather the whole tensors, unless that has been done or has begun. gather() does the same
  // and waits for the result.
  void begin_gather();
  void gather();
  void free();
  // Frees the whole tensors between forward and backward pass. If the mesh axis Storage::between has several ranks,
  // each of them keeps a part of the tensors, so the next gather involves only these ranks.
  void free_between();
  // For tensors that are never freed (ZeRO-2): starts to gather the rows that each rank's optimizer has updated.
  // gather() waits for the result.
  void begin_update();
  bool is_whole() const { return whole_; }

  // Returns this rank's rows of a tensor, which may be no rows.
  const at::Tensor& rows(size_t i) const { return rows_[i]; }
  // Returns whole tensors in the shapes of the parameters, gathered from all ranks. rows: this rank's rows of each
  // tensor. Collective.
  std::vector<at::Tensor> joined(const std::vector<at::Tensor>& rows) const;
  // Returns this rank's rows of `value`, a tensor with the shape of the i-th parameter.
  at::Tensor rows_in(const at::Tensor& value, size_t i) const { return cut_.rows_of(value, i, storage_.shard.rank); }
  // Stores this rank's rows of `value`, a whole tensor that must be equal on all ranks, as the i-th tensor.
  void set(size_t i, const at::Tensor& value) const;

  // Returns the part of the tensors that this rank keeps between free_between() and gather(); at other times an
  // undefined tensor.
  const at::Tensor& kept_part() const { return between_; }
  // Returns the bytes of gathered tensors (also while the gather is in flight) and of kept_part(). The shard that this
  // rank stores does not count.
  int64_t held_bytes() const;
  // Returns the bytes of the buffer into which a gather writes, and from which the tensors are filled.
  int64_t buffer_bytes() const;

 private:
  bool is_cut() const { return storage_.shard.size > 1; }
  // Returns true if this rank's rows of a tensor are a part or a copy of the tensor; false if they are the tensor
  // itself.
  bool has_separate_rows() const { return is_cut() || storage_.frees(); }
  void make_private();
  void keep_rows();
  void start(const at::Tensor& shard, const RowCut& cut, const Axis& axis);
  void allocate() const;

  std::vector<at::Tensor> tensors_;
  // Aliases of tensors_ with the same memory, but without autograd and with their own version counters.
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> like_;  // meta tensors with the shapes, strides and dtypes in which the tensors are stored
  Storage storage_;
  RowCut cut_, between_cut_;
  at::Tensor shard_;    // this rank's flat shard; undefined if tensors are never freed
  at::Tensor between_;  // the part of the tensors that this rank keeps between free_between() and gather()
  std::vector<at::Tensor> rows_;
  bool whole_ = true;
  at::Tensor input_, output_;  // buffers of the all-gather in flight
  WorkPtr gathering_;
};

}  // namespace dpbench::fsdp
