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

  // begin_gather() starts to gather the tensors, unless they are gathered or being gathered. gather() also waits for
  // the result.
  void begin_gather();
  void gather();
  void free();
  // Frees the tensors between forward and backward pass. If the axis Storage::between has several ranks, each of them
  // keeps a part, and the next gather involves only these ranks.
  void free_between();
  // For tensors that are never freed: starts to gather the rows that the optimizer has updated. gather() waits for the
  // result.
  void begin_update();
  bool is_whole() const { return whole_; }

  // Returns this rank's rows of a tensor, which may be no rows.
  const at::Tensor& rows(size_t i) const { return rows_[i]; }
  // Returns unsharded tensors in the shapes of the parameters. rows: this rank's rows of each. Collective.
  std::vector<at::Tensor> joined(const std::vector<at::Tensor>& rows) const;
  // Returns this rank's rows of `value`, a tensor with the shape of the i-th parameter.
  at::Tensor rows_in(const at::Tensor& value, size_t i) const { return cut_.rows_of(value, i, storage_.shard.rank); }
  // Stores this rank's rows of `value`, a whole tensor that must be equal on all ranks, as the i-th tensor.
  void set(size_t i, const at::Tensor& value) const;

  // Returns this rank's part of the tensors from free_between() to gather(); else an undefined tensor.
  const at::Tensor& kept_part() const { return between_; }
  // Returns the bytes of the tensors that are gathered or being gathered and of kept_part(), without the shard that
  // this rank stores.
  int64_t held_bytes() const;
  // Returns the bytes of a gather's output, which is copied into the tensors.
  int64_t buffer_bytes() const;

 private:
  bool is_cut() const { return storage_.shard.size > 1; }
  // True if this rank's rows of a tensor are a part or a copy of it, not the tensor itself.
  bool has_separate_rows() const { return is_cut() || storage_.frees(); }
  void make_private();
  void keep_rows();
  void start(const at::Tensor& shard, const RowCut& cut, const Axis& axis);
  void allocate() const;

  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> values_;  // aliases of tensors_: same memory, no autograd, own version counter
  std::vector<at::Tensor> like_;    // meta tensors with the stored shapes, strides and dtypes
  Storage storage_;
  RowCut cut_, between_cut_;
  at::Tensor shard_;    // this rank's flat shard; undefined if tensors are never freed
  at::Tensor between_;  // this rank's part of the tensors; defined after free_between() and until gather()
  std::vector<at::Tensor> rows_;
  bool whole_ = true;
  at::Tensor input_, output_;  // buffers of a gather in progress
  WorkPtr gathering_;
};

}  // namespace dpbench::fsdp
