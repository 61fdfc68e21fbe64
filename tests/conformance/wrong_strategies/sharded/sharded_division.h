// Divides a model for the sharded reference strategy: into units, and each parameter into equally many rows per rank.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/conformance/wrong_strategies/sharded/sharded_reference.h"

namespace dpbench::wrong::sharded {

int64_t rows_of(const at::Tensor& tensor);  // returns 1 for a tensor without dimensions
int64_t rows_per_rank(const at::Tensor& tensor, int ranks);
// Returns the tensor with rows of zeros at its end, so that each rank gets equally many rows.
at::Tensor padded_for(const at::Tensor& tensor, int ranks);

// The units of a model: spans of blocks, each with the parameters that only this span uses.
struct Division {
  std::vector<std::pair<size_t, size_t>> spans;
  std::vector<at::Tensor> parameters;  // the model's parameters, each once
  std::vector<size_t> unit;            // index of each parameter's unit; spans.size() if several units or none use it
};

Division divided(const Model& model, int64_t blocks_per_unit);

// Returns the traffic formula of the sharded reference strategy without mistakes.
TrafficFormula traffic_of(const ShardedOptions& options);

}  // namespace dpbench::wrong::sharded
