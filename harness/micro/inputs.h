// The ranks' inputs of a collective and the exact result of reducing them. Every value is a small whole number, so the
// reduction is exact in every type. At each index, the ranks have different values; in bf16, only up to 16 ranks. For
// products, every value is 1 or 2, so ranks may have equal values.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "harness/front/cli/collectives_flags.h"

namespace dpbench::micro {

struct ElementType {
  const char* shown;  // name of the type in the tables of nccl-tests
  at::ScalarType scalar;
  int64_t exact;  // every whole number up to this one is exact in the type
};

const ElementType& element_type(ElementName name);

struct Inputs {
  ElementName dtype = ElementName::f32;
  ReductionName op = ReductionName::sum;
  int world = 1;

  // of() returns elements [from, from + count) of a rank's input; reduced() returns these elements of the reduction of
  // all ranks' inputs.
  at::Tensor of(int rank, int64_t from, int64_t count) const;
  at::Tensor reduced(int64_t from, int64_t count) const;
  c10d::ReduceOp reduction() const;

 private:
  at::Tensor period(int rank) const;
  at::Tensor repeated(const at::Tensor& period, int64_t from, int64_t count) const;
};

}  // namespace dpbench::micro
