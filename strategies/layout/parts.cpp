#include "strategies/layout/parts.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace dpbench::layout {
namespace {

// Returns, for each micro-batch of the step, the number of parts into which the pipeline cuts it. Ranks that gather
// parameters together or exchange tokens must run equally many passes, so they agree on the numbers.
std::vector<int64_t> part_counts(std::span<const Batch> micro, const RankModel& model) {
  const int64_t most = model.options.pipeline.microbatches;
  std::vector<int64_t> counts;
  for (const Batch& batch : micro) counts.push_back(std::clamp<int64_t>(batch.samples(), 1, most));
  const Axis &shard = model.axes.shard, &ep = model.axes.ep;
  const bool gathers = model.units && shard.size > 1;
  if (most == 1 || !(gathers || ep.size > 1)) return counts;
  std::vector<at::Tensor> smallest = {at::tensor(counts).to(model.replica.device())};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  if (gathers) shard.group->allreduce(smallest, options)->wait();
  if (ep.size > 1) ep.group->allreduce(smallest, options)->wait();
  const at::Tensor agreed = smallest[0].cpu();
  const auto* first = agreed.const_data_ptr<int64_t>();
  return {first, first + counts.size()};
}

}  // namespace

std::vector<Part> parts_of(std::span<const Batch> micro, const RankModel& model, const Workload& workload,
                           const std::function<ModelSplit(const Batch&)>& exchange) {
  std::vector<Part> parts;
  const std::vector<int64_t> counts = part_counts(micro, model);
  for (size_t k = 0; k < micro.size(); ++k) {
    const Batch batch = model.replica.to_device(micro[k]);
    const std::vector<int64_t> samples = even_pieces(batch.samples(), static_cast<int>(counts[k]));
    for (size_t i = 0; i < samples.size(); ++i) {
      const Piece piece = piece_of(samples, static_cast<int>(i));
      const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(0, piece.first, piece.size); };
      Part part{.batch = samples.size() == 1 ? batch : Batch{cut(batch.input), cut(batch.target), cut(batch.ids)}};
      if (samples.size() > 1 && !workload.sum_loss())
        part.share =
            static_cast<double>(workload.loss_terms(part.batch)) / static_cast<double>(workload.loss_terms(batch));
      part.split = exchange(part.batch);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace dpbench::layout
