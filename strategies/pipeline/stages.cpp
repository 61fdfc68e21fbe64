#include "strategies/pipeline/stages.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "strategies/parts/parameter_table.h"
#include "strategies/schedule/balance.h"

namespace dpbench::pipeline {
namespace {

std::vector<size_t> even_sizes(size_t blocks, size_t stages) {
  std::vector<size_t> sizes(stages, blocks / stages);
  for (size_t i = 0; i < blocks % stages; ++i) ++sizes[i];
  return sizes;
}

std::vector<size_t> default_sizes(size_t blocks, size_t stages, const std::vector<double>& costs) {
  const bool known = std::ranges::any_of(costs, [](double cost) { return cost > 0; });
  if (blocks <= stages || !known) return even_sizes(blocks, stages);
  const std::vector<int64_t> sizes = balanced_sizes(costs, static_cast<int64_t>(stages));
  return {sizes.begin(), sizes.end()};
}

std::vector<size_t> fitting_sizes(const std::string& text, size_t blocks, size_t stages, const std::string& owner) {
  const std::vector<size_t> sizes = parse_sizes(text, owner);
  const size_t sum = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  if (sizes.size() != stages || sum != blocks)
    throw UsageError(owner + ".blocks=" + text + " has " + std::to_string(sum) + " blocks in " +
                     std::to_string(sizes.size()) + " stages; the model has " + std::to_string(blocks) +
                     " blocks, the schedule " + std::to_string(stages) + " stages");
  return sizes;
}

std::vector<Placed> placed(const std::vector<TableRow>& table, const std::vector<Stage>& stages) {
  std::vector<Placed> all;
  for (const TableRow& row : table) {
    all.push_back({.name = row.name,
                   .tensor = row.tensor,
                   .sizes = row.tensor.sizes().vec(),
                   .dtype = row.tensor.scalar_type(),
                   .stages = {}});
    for (size_t s = 0; s < stages.size(); ++s)
      if (row.used_in(stages[s].first, stages[s].last)) all.back().stages.push_back(static_cast<int>(s));
    if (all.back().stages.empty()) all.back().stages.push_back(0);
  }
  return all;
}

}  // namespace

std::vector<size_t> parse_sizes(const std::string& text, const std::string& owner) {
  std::vector<size_t> sizes;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('+', at), text.size());
    size_t size = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, size);
    if (error != std::errc{} || rest != text.data() + end || size == 0)
      throw UsageError(owner + ".blocks=" + text +
                       ": write balanced, or the number of blocks of each stage, such as 2+3+1");
    sizes.push_back(size);
    at = end + 1;
  }
  return sizes;
}

std::vector<double> flop_of(const std::vector<BlockRun>& runs) {
  std::vector<double> flop;
  for (const BlockRun& run : runs) flop.push_back(run.flop);
  return flop;
}

std::vector<Stage> cut_stages(const Model& model, const std::vector<int>& rank_of, const std::string& blocks_per_stage,
                              const std::string& owner, const std::vector<double>& costs) {
  const size_t blocks = model.blocks().size(), stages = rank_of.size();
  const std::vector<size_t> sizes = blocks_per_stage.empty() ? default_sizes(blocks, stages, costs)
                                                             : fitting_sizes(blocks_per_stage, blocks, stages, owner);
  std::vector<Stage> all;
  size_t first = 0;
  for (size_t s = 0; s < stages; ++s) {
    all.push_back({.first = first, .last = first + sizes[s], .rank = rank_of[s]});
    first += sizes[s];
  }
  return all;
}

std::vector<Placed> placed_parameters(const Model& model, const std::vector<Stage>& stages) {
  return placed(parameter_table(model), stages);
}

std::vector<Placed> placed_buffers(const Model& model, const std::vector<Stage>& stages) {
  return placed(buffer_table(model), stages);
}

}  // namespace dpbench::pipeline
