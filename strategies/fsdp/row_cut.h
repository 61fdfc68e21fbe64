// The cut of tensors into shards: each tensor is cut along dim 0 into one piece of rows per rank. All pieces have
// equally many rows, except those of the last ranks, which may have fewer. A rank's flat shard is the concatenation of
// its pieces of all tensors. The concatenated flat shards of all ranks are the output of an all-gather and the input of
// a reduce-scatter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench::fsdp {

class RowCut {
 public:
  RowCut(const std::vector<at::Tensor>& tensors, int ranks);

  size_t size() const { return places_.size(); }
  int64_t shard_elements() const { return shard_elements_; }
  int64_t whole_elements() const { return shard_elements_ * ranks_; }
  // True if some ranks have fewer rows than others, so that their flat shards contain padding.
  bool padded() const { return padded_; }
  // Returns a view of the rows of the i-th tensor that belong to a rank. The view may have no rows.
  at::Tensor rows_of(const at::Tensor& tensor, size_t i, int rank) const;
  // Returns a rank's rows of the i-th tensor, as a view of the rank's flat shard.
  at::Tensor rows_in(const at::Tensor& shard, size_t i, int rank) const;
  // Returns a rank's flat shard as a view of `whole`, the concatenated flat shards of all ranks.
  at::Tensor shard_of(const at::Tensor& whole, int rank) const;

  // `whole` is the concatenation of all ranks' flat shards. unpack() copies all rows of the i-th tensor out of `whole`;
  // pack() copies them into `whole`, multiplied by `scale`.
  void unpack(const at::Tensor& whole, size_t i, const at::Tensor& tensor) const;
  void pack(const at::Tensor& tensor, size_t i, double scale, const at::Tensor& whole) const;

 private:
  struct Place {
    std::vector<int64_t> row;  // shape of one row: all dimensions of the tensor but the first
    int64_t rows = 0, rows_per_rank = 0, elements_of_row = 1, offset = 0;
    int64_t first(int rank) const { return std::min(rows, rows_per_rank * rank); }
    int64_t count(int rank) const { return first(rank + 1) - first(rank); }
  };

  int ranks_;
  std::vector<Place> places_;
  int64_t shard_elements_ = 0;
  bool padded_ = false;
};

}  // namespace dpbench::fsdp
