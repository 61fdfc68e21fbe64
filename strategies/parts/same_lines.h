// Compares lists of text lines between ranks, such as descriptions of their models or schedules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace dpbench {

// The first line in which this rank's list differs from rank 0's. A list that has no more lines gives "nothing more".
struct DifferentLine {
  std::string mine, of_rank0;
};

// Compares this rank's lines with the lines of rank 0 of the group. Returns nullopt if they are equal. Collective.
std::optional<DifferentLine> different_line(c10d::ProcessGroup& group, const std::vector<std::string>& lines,
                                            at::Device device);

}  // namespace dpbench
