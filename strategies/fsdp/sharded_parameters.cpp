#include "strategies/fsdp/sharded_parameters.h"

#include <limits>
#include <utility>

#include <ATen/ATen.h>

namespace dpbench::fsdp {
namespace {

// Moves the memory of one tensor's storage to another storage. Views saved in the autograd graph share their tensor's
// storage: they lose their values when the storage's memory is freed, and get them back with the next gather.
void move_memory(const at::Tensor& from, const at::Tensor& to) {
  c10::StorageImpl *const source = from.storage().unsafeGetStorageImpl(), *const target =
                                                                              to.storage().unsafeGetStorageImpl();
  target->set_data_ptr_noswap(source->set_data_ptr(at::DataPtr(nullptr, from.device())));
  target->set_nbytes(source->nbytes());
  source->set_nbytes(0);
}

void fill_with_nan(const at::Tensor& tensor) {
  if (tensor.is_floating_point()) tensor.fill_(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

ShardedParameters::ShardedParameters(const std::vector<at::Tensor>& tensors, const Storage& storage)
    : tensors_(tensors),
      storage_(storage),
      cut_(tensors, storage.shard.size),
      between_cut_(tensors, storage.between.size) {
  const at::NoGradGuard no_grad;
  keep_rows();
  if (!storage_.frees()) return;
  make_private();
  free();
}

// Sets rows_ to this rank's rows of each tensor. If tensors are freed, these are views of the flat shard; otherwise
// they are views of the tensors, or copies where a view is not dense, because fused optimizers require dense tensors.
void ShardedParameters::keep_rows() {
  const int rank = storage_.shard.rank;
  for (const at::Tensor& tensor : tensors_) like_.push_back(at::empty_like(tensor, at::kMeta));
  if (storage_.frees()) shard_ = at::zeros({cut_.shard_elements()}, tensors_[0].options());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    values_.push_back(tensors_[i].variable_data());
    at::Tensor mine = has_separate_rows() ? cut_.rows_of(values_[i], i, rank) : values_[i];
    if (shard_.defined())
      mine = cut_.rows_in(shard_, i, rank).copy_(mine);
    else if (!mine.is_non_overlapping_and_dense())
      mine = mine.clone(at::MemoryFormat::Contiguous);
    rows_.push_back(mine);
  }
}

// Gives each tensor its own memory, in the dtype in which it is gathered.
void ShardedParameters::make_private() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto dtype = storage_.gathered.value_or(tensors_[i].scalar_type());
    tensors_[i].set_data(at::empty_like(values_[i], values_[i].options().dtype(dtype)));
    values_[i] = tensors_[i].variable_data();
  }
}

void ShardedParameters::start(const at::Tensor& shard, const RowCut& cut, const Axis& axis) {
  input_ = shard;
  if (axis.size == 1) {
    output_ = input_;
    return;
  }
  output_ = at::empty({cut.whole_elements()}, input_.options());
  if (storage_.poison) fill_with_nan(output_);
  gathering_ = begin_allgather(*axis.group, output_, input_);
}

void ShardedParameters::begin_gather() {
  if (whole_ || output_.defined()) return;
  const at::NoGradGuard no_grad;
  if (between_.defined())
    start(between_, between_cut_, storage_.between);
  else
    start(shard_.to(values_[0].scalar_type()), cut_, storage_.shard);
}

void ShardedParameters::begin_update() {
  if (!is_cut()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor shard = at::zeros({cut_.shard_elements()}, tensors_[0].options());
  for (size_t i = 0; i < rows_.size(); ++i) cut_.rows_in(shard, i, storage_.shard.rank).copy_(rows_[i]);
  start(shard, cut_, storage_.shard);
}

void ShardedParameters::gather() {
  begin_gather();
  if (!output_.defined()) return;
  const at::NoGradGuard no_grad;
  if (gathering_) gathering_->wait();
  gathering_.reset();
  allocate();
  const RowCut& cut = between_.defined() ? between_cut_ : cut_;
  for (size_t i = 0; i < values_.size(); ++i) cut.unpack(output_, i, values_[i]);
  input_.reset(), output_.reset(), between_.reset();
  whole_ = true;
}

void ShardedParameters::allocate() const {
  if (whole_ || storage_.poison) return;
  for (const at::Tensor& value : values_)
    move_memory(at::empty_strided(value.sizes(), value.strides(), value.options()), value);
}

void ShardedParameters::free_between() {
  if (storage_.between.size > 1 && shard_.defined() && whole_) {
    const at::NoGradGuard no_grad;
    const int rank = storage_.between.rank;
    at::Tensor part = at::zeros({between_cut_.shard_elements()}, values_[0].options());
    for (size_t i = 0; i < values_.size(); ++i)
      between_cut_.rows_in(part, i, rank).copy_(between_cut_.rows_of(values_[i], i, rank));
    free();
    between_ = part;
  } else {
    free();
  }
}

void ShardedParameters::free() {
  if (!shard_.defined() || !whole_) return;
  whole_ = false;
  for (const at::Tensor& value : values_)
    if (storage_.poison)
      fill_with_nan(value);
    else
      move_memory(at::empty({0}, value.options()), value);
}

std::vector<at::Tensor> ShardedParameters::joined(const std::vector<at::Tensor>& rows) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < rows.size(); ++i)
    all.push_back(at::empty_strided(like_[i].sizes(), like_[i].strides(), rows[i].options()));
  if (rows.empty()) return all;
  if (!is_cut()) {
    for (size_t i = 0; i < rows.size(); ++i) all[i].copy_(rows[i].view_as(all[i]));
    return all;
  }
  at::Tensor shard = at::zeros({cut_.shard_elements()}, rows[0].options());
  at::Tensor whole = at::empty({cut_.whole_elements()}, rows[0].options());
  for (size_t i = 0; i < rows.size(); ++i) cut_.rows_in(shard, i, storage_.shard.rank).copy_(rows[i]);
  allgather_flat(*storage_.shard.group, whole, shard);
  for (size_t i = 0; i < rows.size(); ++i) cut_.unpack(whole, i, all[i]);
  return all;
}

void ShardedParameters::set(size_t i, const at::Tensor& value) const {
  const at::NoGradGuard no_grad;
  if (whole_) values_[i].copy_(value);
  if (has_separate_rows()) rows_[i].copy_(rows_in(value, i));
}

int64_t ShardedParameters::buffer_bytes() const {
  return is_cut() ? cut_.whole_elements() * static_cast<int64_t>(values_[0].itemsize()) : 0;
}

int64_t ShardedParameters::held_bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& one : {output_, between_})
    if (one.defined()) bytes += static_cast<int64_t>(one.nbytes());
  if (!whole_) return bytes;
  for (const at::Tensor& value : values_) bytes += value.numel() * static_cast<int64_t>(value.itemsize());
  return bytes;
}

}  // namespace dpbench::fsdp
