#include "tests/conformance/wrong_strategies/sharded/sharded_division.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/api/trained_parameters.h"

namespace dpbench::wrong {
namespace sharded {
namespace {

bool uses(const Model& model, std::pair<size_t, size_t> span, const at::Tensor& parameter) {
  if (model.blocks().empty()) return true;
  for (size_t b = span.first; b < span.second; ++b)
    for (const auto& layer : model.blocks()[b].layers)
      for (const at::Tensor& one : layer->parameters())
        if (one.is_same(parameter)) return true;
  return false;
}

}  // namespace

int64_t rows_of(const at::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }
int64_t rows_per_rank(const at::Tensor& tensor, int ranks) { return (rows_of(tensor) + ranks - 1) / ranks; }

at::Tensor padded_for(const at::Tensor& tensor, int ranks) {
  const at::Tensor rows = (tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor).contiguous();
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = rows_per_rank(tensor, ranks) * ranks - sizes[0];
  return at::cat({rows, at::zeros(sizes, rows.options())}).contiguous();
}

Division divided(const Model& model, int64_t blocks_per_unit) {
  Division division;
  const size_t blocks = model.blocks().size(), each = static_cast<size_t>(blocks_per_unit);
  for (size_t b = 0; b < blocks; b += each) division.spans.emplace_back(b, std::min(blocks, b + each));
  if (blocks == 0) division.spans.emplace_back(0, 0);
  for (const at::Tensor& parameter : model.parameters()) {
    const auto same = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (std::ranges::any_of(division.parameters, same)) continue;
    size_t unit = division.spans.size(), users = 0;
    for (size_t u = 0; u < division.spans.size(); ++u)
      if (uses(model, division.spans[u], parameter)) unit = u, ++users;
    division.parameters.push_back(parameter);
    division.unit.push_back(users == 1 ? unit : division.spans.size());
  }
  return division;
}

TrafficFormula traffic_of(const ShardedOptions& options) {
  return [options](const TrafficQuery& query) -> std::optional<std::vector<Traffic>> {
    const bool hybrid = size_of(query.mesh, "shard") > 1;
    const std::string axis = hybrid ? "shard" : "dp", world = query.mesh.size() > 1 ? "world" : axis;
    const int ranks = size_of(query.mesh, axis);
    const Division division = divided(query.model, options.blocks_per_unit);
    const int64_t reductions = options.reduces_each_micro_batch ? query.accumulate : 1;
    int64_t gathered = 0, gathers = 0, reduced = 0, reduces = 0, summed = 0;
    for (size_t p = 0; p < division.parameters.size(); ++p) {
      const at::Tensor& parameter = division.parameters[p];
      const size_t units = division.spans.size(), unit = division.unit[p];
      const int64_t row = parameter.numel() == 0 ? 0 : parameter.numel() / rows_of(parameter),
                    bytes = rows_per_rank(parameter, ranks) * row *
                            static_cast<int64_t>(c10::elementSize(query.stored(parameter)));
      const int64_t times = unit == units                       ? 1
                            : unit + 1 < units && options.frees ? 2 * query.accumulate
                                                                : query.accumulate;
      const int64_t counted = bytes > 0 ? 1 : 0;  // an operation that transfers no bytes makes no call
      gathered += bytes * times, gathers += times * counted;
      if (!parameter.requires_grad()) continue;
      reduced += bytes * ranks * reductions, reduces += reductions * counted;
      summed += hybrid ? bytes : 0;
    }
    std::vector<Traffic> all = {{axis, "allgather", gathered, gathers},
                                {axis, "reduce_scatter", reduced, reduces},
                                {"dp", "allreduce", summed},
                                {world, "allreduce", static_cast<int64_t>(division.parameters.size() * sizeof(int))},
                                {world, "broadcast", query.bytes_of(named_buffers(query.model))}};
    if (query.clips) all.push_back({axis, "allreduce", sizeof(double)});
    return all;
  };
}

}  // namespace sharded

std::optional<int64_t> live_sharded_parameters(const TrafficQuery& query) {
  const sharded::Division division = sharded::divided(query.model, /*blocks_per_unit=*/1);
  const int ranks = size_of(query.mesh, size_of(query.mesh, "shard") > 1 ? "shard" : "dp");
  const size_t units = division.spans.size();
  // Bytes of each unit, without and with the padding of a gather. The last entry is for the shared parameters.
  std::vector<int64_t> whole(units + 1, 0), gathered(units + 1, 0);
  int64_t shards = 0;
  for (size_t p = 0; p < division.parameters.size(); ++p) {
    const at::Tensor& one = division.parameters[p];
    const auto element = static_cast<int64_t>(c10::elementSize(query.stored(one)));
    whole[division.unit[p]] += one.numel() * element;
    const int64_t padded = sharded::padded_for(one, ranks).numel() * element;
    gathered[division.unit[p]] += padded, shards += padded / ranks;
  }
  int64_t most = std::max(gathered[units], whole[units] + gathered[0]);
  for (size_t u = 0; u + 1 < units; ++u) {
    most = std::max(most, whole[units] + whole[u] + gathered[u + 1]);
    most = std::max(most, whole[units] + whole[u + 1] + gathered[u]);
  }
  return shards + std::max(most, whole[units] + whole[units - 1]);
}

}  // namespace dpbench::wrong
