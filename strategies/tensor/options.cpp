#include "strategies/tensor/options.h"

#include <algorithm>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/tensor/tensors.h"
#include "workloads/base/error.h"

namespace dpbench::tensor {
namespace {

// Returns a rank's pieces of a whole model's tensors.
NamedTensors pieces(NamedTensors tensors, const CutTensors& cuts) {
  for (auto& [name, tensor] : tensors) tensor = cuts.piece(name, tensor);
  return tensors;
}

// Returns the parameters that are not cut but have gradients that are summed over tp.
NamedTensors summed(const Model& model, const CutTensors& cuts, bool sequence) {
  NamedTensors all = trained_parameters(model);
  std::erase_if(all, [&](const auto& one) { return !cuts.is_partial(one.first, sequence); });
  return all;
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
  // tp has no traffic formula with tp.verify, under autocast (a layer chooses the dtype of an activation), or with
  // recomputation (some activations are summed again).
  if (options.verify || query.dtype == at::kBFloat16 || query.model.recompute() > 0) return std::nullopt;
  const int ranks = size_of(query.mesh, "tp");
  const TensorPlan plan = ranks > 1 ? query.model.tensor_plan(ranks) : TensorPlan();
  const CutTensors cuts(plan, Axis{.name = "tp", .rank = place_on(query.mesh, "tp", query.rank), .size = ranks});
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1)
    all = {{"dp", "broadcast", query.bytes_of(pieces(named_buffers(query.model), cuts))},
           {"dp", "allreduce", flat_bytes(query, pieces(trained_parameters(query.model), cuts)), flat_buffers(query)}};
  if (ranks == 1) return all;
  // Bytes of one element of an activation or a loss.
  const auto size = static_cast<int64_t>(c10::elementSize(query.dtype));
  const int64_t activations = query.samples * size * (plan.left + plan.entered);
  int64_t sums = query.samples * size * (plan.totals + plan.maxima) +
                 flat_bytes(query, summed(query.model, cuts, options.sequence)) +
                 (query.clips ? static_cast<int64_t>(sizeof(double)) : 0);
  if (options.sequence) {
    // Each activation is all-gathered in one of the two passes and reduce-scattered in the other. Shorter pieces of the
    // sequence are padded.
    const int64_t piece = activations / plan.tokens * even_pieces(plan.tokens, ranks).front();
    all.push_back({"tp", "allgather", piece});
    all.push_back({"tp", "reduce_scatter", piece * ranks});
  } else {
    sums += activations;
  }
  all.push_back({"tp", "allreduce", sums});
  return all;
}

}  // namespace dpbench::tensor
