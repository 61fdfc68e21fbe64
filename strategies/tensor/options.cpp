#include "strategies/tensor/options.h"

#include <algorithm>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/tensor/tensors.h"
#include "workloads/base/error.h"

namespace dpbench::tensor {
namespace {

// Returns this rank's pieces of tensors that belong to an undivided model.
NamedTensors pieces(NamedTensors tensors, const CutTensors& cuts) {
  for (auto& [name, tensor] : tensors) tensor = cuts.piece(name, tensor);
  return tensors;
}

// Returns the parameters that are not cut but have gradients that are summed over the mesh axis tp.
NamedTensors summed(const Model& model, const CutTensors& cuts, bool sequence) {
  NamedTensors all = trained_parameters(model);
  std::erase_if(all, [&](const auto& one) { return !cuts.is_partial(one.first, sequence); });
  return all;
}

// Returns the number of micro-batches in which this rank has samples.
int64_t micro_batches(const std::vector<int64_t>& micro) {
  return std::ranges::count_if(micro, [](int64_t samples) { return samples > 0; });
}

// Returns the number of collective calls that exchange activations in a step. Each leave() makes one call per chunk in
// the forward pass, and each enter() one call in the backward pass.
int64_t calls_of(const TensorPlan& plan, const Options& options, const std::vector<int64_t>& micro) {
  int64_t calls = micro_batches(micro) * plan.entered.calls;
  for (const int64_t samples : micro) calls += std::min(samples, options.chunks) * plan.left.calls;
  return calls;
}

}  // namespace

std::vector<ParamInfo> parameters() {
  return {{"sequence", "off", "on: cut activations outside of divided layers along the sequence, which saves memory"},
          {"chunks", "1", "parts of a product; each is summed over ranks while the next is computed", "integer from 1"},
          {"verify", "off", "compare tensors that must be equal on all ranks, for tests"}};
}

Options options_of(const Params& params) {
  Options options{.owner = params.owner(),
                  .sequence = params.flag("sequence"),
                  .chunks = params.integer("chunks"),
                  .verify = params.flag("verify")};
  if (options.chunks < 1) throw UsageError(options.owner + ".chunks=" + params.text("chunks") + " must be 1 or more");
  return options;
}

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query) {
  const Options options = options_of(query.params);
  // The strategy tp has no traffic formula in three cases: with tp.verify; under autocast, because each layer chooses
  // the dtype of its activations; with recomputation, because some activations are then summed a second time.
  if (options.verify || query.dtype == at::kBFloat16 || query.model.recompute() > 0) return std::nullopt;
  const int ranks = size_of(query.mesh, "tp");
  const TensorPlan plan = ranks > 1 ? query.model.tensor_plan(ranks) : TensorPlan();
  const CutTensors cuts(plan, Axis{.name = "tp", .rank = place_on(query.mesh, "tp", query.rank), .size = ranks});
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1)
    all = {{"dp", "broadcast", query.bytes_of(pieces(named_buffers(query.model), cuts))},
           {"dp", "allreduce", flat_bytes(query, pieces(trained_parameters(query.model), cuts)), flat_buffers(query)}};
  if (ranks == 1) return all;
  // Bytes of one value per sample (such as one element of an activation), for all samples of this rank.
  const int64_t size = query.samples * static_cast<int64_t>(c10::elementSize(query.dtype));
  const int64_t activations = size * (plan.left.elements + plan.entered.elements);
  const int64_t calls = calls_of(plan, options, query.micro);
  if (options.sequence) {
    // With sequence parallelism, each activation is all-gathered in one pass (forward or backward) and reduce-scattered
    // in the other. Pieces of the sequence are padded to the size of the largest.
    const int64_t piece = activations / plan.tokens * even_pieces(plan.tokens, ranks).front();
    all.push_back({"tp", "allgather", piece, calls});
    all.push_back({"tp", "reduce_scatter", piece * ranks, calls});
  } else {
    all.push_back({"tp", "allreduce", activations, calls});
  }
  all.push_back({"tp", "allreduce", size * (plan.totals.elements + plan.maxima.elements),
                 micro_batches(query.micro) * (plan.totals.calls + plan.maxima.calls)});
  const NamedTensors partial = summed(query.model, cuts, options.sequence);
  all.push_back({"tp", "allreduce", flat_bytes(query, partial), flat_buffers(query, partial)});
  if (query.clips) all.push_back({"tp", "allreduce", sizeof(double), 1});
  return all;
}

}  // namespace dpbench::tensor
