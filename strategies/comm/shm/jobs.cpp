#include "strategies/comm/shm/jobs.h"

#include <c10/util/hash.h>

#include <numeric>
#include <optional>
#include <stdexcept>

namespace dpbench::shm {

std::string shape_of(const at::Tensor& tensor) {
  return c10::str(tensor.scalar_type(), " ", tensor.sizes(), " with strides ", tensor.strides());
}

namespace {

using Op = c10d::ReduceOp;

struct ReductionName {
  Op::RedOpType op;
  Reduction reduction;
};
constexpr ReductionName reduction_names[] = {{Op::SUM, Reduction::sum},
                                             {Op::AVG, Reduction::avg},
                                             {Op::PRODUCT, Reduction::product},
                                             {Op::MIN, Reduction::min},
                                             {Op::MAX, Reduction::max}};

struct ElementName {
  at::ScalarType dtype;
  Element element;
};
constexpr ElementName element_names[] = {
    {at::kFloat, Element::f32}, {at::kDouble, Element::f64}, {at::kBFloat16, Element::bf16}, {at::kHalf, Element::f16},
    {at::kInt, Element::i32},   {at::kLong, Element::i64},   {at::kChar, Element::i8},       {at::kByte, Element::u8}};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("shm: " + why); }

Reduction reduction_of(const Op& op) {
  for (const auto& [type, reduction] : reduction_names)
    if (op.op_ == type) return reduction;
  refuse("supports sum, avg, product, min and max, not c10d's operation number " + std::to_string(int(op.op_)));
}

Reduce kernel_for(Reduction reduction, at::ScalarType dtype) {
  for (const auto& [type, element] : element_names)
    if (type == dtype)
      if (const Reduce kernel = find_reduce(reduction, element)) return kernel;
  refuse(std::string("cannot reduce tensors of ") + c10::toString(dtype) +
         (reduction == Reduction::avg ? " by avg" : ""));
}

// Throws unless the tensor is dense and without gaps, so that its memory can be treated as one flat array. Ranks with
// different element orders are detected elsewhere, by comparing Call::strides.
void require_flat(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) refuse("takes dense tensors, not sparse ones");
  if (!tensor.is_cpu()) refuse("takes CPU tensors, not " + tensor.device().str());
  if (!tensor.is_non_overlapping_and_dense())
    refuse("takes tensors without gaps in memory, not " + shape_of(tensor) + ": call contiguous() first");
}

uint64_t strides_of(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? 0 : c10::get_hash(tensor.strides().vec(), tensor.sizes().vec());
}

char* data_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

Job job_for(Kind kind, const at::Tensor& share, int root = -1) {
  require_flat(share);
  Job job;
  job.call = {.kind = kind,
              .dtype = static_cast<int8_t>(share.scalar_type()),
              .root = root,
              .count = share.numel(),
              .strides = strides_of(share)};
  job.item = share.element_size();
  return job;
}

void set_reduction(Job& job, const at::Tensor& like, const Op& op) {
  job.call.reduction = reduction_of(op);
  job.reduce = kernel_for(job.call.reduction, like.scalar_type());
}

void require_like(const at::Tensor& tensor, const at::Tensor& share) {
  require_flat(tensor);
  if (tensor.scalar_type() != share.scalar_type() || tensor.numel() != share.numel() ||
      strides_of(tensor) != strides_of(share))
    refuse("all tensors of a collective must match: " + shape_of(tensor) + " differs from " + shape_of(share));
}

}  // namespace

Job allreduce_job(const at::Tensor& tensor, const Op& op) {
  Job job = job_for(Kind::allreduce, tensor);
  set_reduction(job, tensor, op);
  job.sends = {data_of(tensor)};
  job.reduced = data_of(tensor);
  return job;
}

Job reduce_job(const at::Tensor& tensor, const Op& op, int root, int rank) {
  Job job = job_for(Kind::reduce, tensor, root);
  set_reduction(job, tensor, op);
  job.sends = {data_of(tensor)};
  if (rank == root) job.reduced = data_of(tensor);
  return job;
}

Job broadcast_job(const at::Tensor& tensor, int root, int rank) {
  Job job = job_for(Kind::broadcast, tensor, root);
  if (rank == root)
    job.sends = {data_of(tensor)};
  else
    job.receives.assign(root, nullptr), job.receives.push_back(data_of(tensor));
  return job;
}

int checked_root(int64_t root, int world) {
  if (root < 0 || root >= world) refuse(c10::str("rank ", root, " cannot be the root of ", world, " ranks"));
  return static_cast<int>(root);
}

Job barrier_job() {
  Job job;
  job.call.kind = Kind::barrier;
  return job;
}

Job exchange_job(Kind kind, const TensorList& inputs, const TensorList& outputs, int root) {
  const at::Tensor& share = inputs.empty() ? outputs.at(0) : inputs.at(0);
  Job job = job_for(kind, share, root);
  for (const auto& tensor : inputs) require_like(tensor, share), job.sends.push_back(data_of(tensor));
  for (const auto& tensor : outputs) require_like(tensor, share), job.receives.push_back(data_of(tensor));
  return job;
}

void require_pairs(const TensorList& outputs, const TensorList& inputs) {
  if (outputs.size() != inputs.size()) refuse(c10::str(outputs.size(), " outputs for ", inputs.size(), " inputs"));
}

TensorList pieces_of_ranks(const at::Tensor& whole, const std::vector<int64_t>& sizes, int world) {
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (static_cast<int>(sizes.size()) != world || whole.dim() == 0 || whole.size(0) != sum || !whole.is_contiguous())
    refuse(c10::str("cannot cut ", shape_of(whole), " into pieces of ", sizes, " for ", world, " ranks"));
  return whole.split_with_sizes(sizes);
}

void require_own_piece(const TensorList& to, const TensorList& from, int rank) {
  const at::Tensor &expected = to.at(rank), &sent = from.at(rank);
  if (expected.sizes() != sent.sizes())
    refuse(c10::str("alltoall: rank ", rank, " sends itself ", shape_of(sent), " and expects ", shape_of(expected)));
}

Job reduce_scatter_job(const TensorList& inputs, const at::Tensor& output, const Op& op) {
  Job job = exchange_job(Kind::reduce_scatter, inputs, {}, -1);
  require_like(output, inputs.at(0));
  set_reduction(job, output, op);
  job.reduced = data_of(output);
  return job;
}

}  // namespace dpbench::shm
