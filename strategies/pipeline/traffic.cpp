#include "strategies/pipeline/traffic.h"

#include <algorithm>
#include <set>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/parts/share.h"
#include "strategies/pipeline/options.h"
#include "strategies/pipeline/stages.h"
#include "workloads/api/tensor_split.h"

namespace dpbench::pipeline {
namespace {

constexpr auto header_bytes = static_cast<int64_t>(header_words * sizeof(int64_t));

int64_t element_bytes(at::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

// The number and size of the messages that this rank sends and receives in a step.
struct Messages {
  int64_t sent = 0, received = 0;              // bytes
  int64_t sent_calls = 0, received_calls = 0;  // numbers of sends and of receives, without those of 0 bytes

  void send(int64_t bytes) { sent += bytes, sent_calls += bytes > 0 ? 1 : 0; }
  void receive(int64_t bytes) { received += bytes, received_calls += bytes > 0 ? 1 : 0; }
};

// The pipeline cuts each micro-batch of a step into parts; returns the number of samples of each part.
std::vector<int64_t> samples_of_parts(const std::vector<int64_t>& micro, int64_t microbatches) {
  std::vector<int64_t> parts;
  for (const int64_t samples : micro)
    for (const int64_t part : even_pieces(samples, static_cast<int>(std::clamp<int64_t>(samples, 1, microbatches))))
      parts.push_back(part);
  return parts;
}

std::vector<Stage> stages_of(const TrafficQuery& query, const Options& options, int ranks) {
  return cut_stages(query.model, Schedules(options, ranks).rank_of_stages(), options.blocks, options.owner,
                    ranks > 1 ? flop_of(query.block_runs()) : std::vector<double>());
}

// Adds the messages that cross a boundary between stages of different ranks: activations and gradients, and a header
// before the first activation of each size.
void add_transfers(Messages& messages, const TrafficQuery& query, const Options& options,
                   const std::vector<Stage>& stages, int here) {
  const std::vector<int64_t> parts = samples_of_parts(query.micro, options.microbatches);
  const std::vector<int64_t> earlier = samples_of_parts(query.earlier, options.microbatches);
  std::set<int64_t> new_sizes(parts.begin(), parts.end());
  for (const int64_t size : earlier) new_sizes.erase(size);
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    const int from = stages[s].rank, to = stages[s + 1].rank;
    if (from == to || (from != here && to != here)) continue;
    // Stages without blocks come last, and pass on the output of the model's last block.
    const int64_t of_sample = query.bytes_of({{"", query.block_runs().at(stages[s].last - 1).output}});
    for (const int64_t part : parts) messages.send(part * of_sample), messages.receive(part * of_sample);
    for (size_t i = 0; i < new_sizes.size(); ++i)
      from == here ? messages.send(header_bytes) : messages.receive(header_bytes);
  }
}

// Returns this rank's trained parameters. If other ranks have a parameter too (tied parameters), adds the messages in
// which these ranks exchange its gradient. The gradient is sent with one more element, which counts the ranks that used
// the parameter.
NamedTensors own_parameters(Messages& messages, const TrafficQuery& query, const std::vector<Stage>& stages, int here) {
  NamedTensors own;
  for (const Placed& one : placed_parameters(query.model, stages)) {
    std::set<int> ranks;
    for (const int stage : one.stages) ranks.insert(stages[static_cast<size_t>(stage)].rank);
    if (!one.tensor.requires_grad() || !ranks.contains(here)) continue;
    own.emplace_back(one.name, one.tensor);
    const int64_t bytes = (one.tensor.numel() + 1) * element_bytes(query.stored(one.tensor));
    for (size_t other = 1; other < ranks.size(); ++other) messages.send(bytes), messages.receive(bytes);
  }
  return own;
}

}  // namespace

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query) {
  const Options options = options_of(query.params);
  const int ranks = size_of(query.mesh, "pp"), here = place_on(query.mesh, "pp", query.rank);
  if (ranks > 1 && (query.dtype == at::kBFloat16 || query.block_runs().empty())) return std::nullopt;
  const std::vector<Stage> stages = stages_of(query, options, ranks);
  Messages messages;
  const NamedTensors own = own_parameters(messages, query, stages, here);
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1)
    all = {{"dp", "broadcast", query.bytes_of(named_buffers(query.model))},
           {"dp", "allreduce", flat_bytes(query, own)}};
  if (ranks == 1) return all;
  add_transfers(messages, query, options, stages, here);
  all.push_back({"pp", "send", messages.sent, messages.sent_calls});
  all.push_back({"pp", "recv", messages.received, messages.received_calls});
  // The rank of the last stage broadcasts the loss in two calls: a header with shape and dtype, then the value.
  all.push_back({"pp", "broadcast", header_bytes + element_bytes(query.dtype), 2});
  if (query.clips) all.push_back({"pp", "allreduce", static_cast<int64_t>(sizeof(double)), 1});
  return all;
}

}  // namespace dpbench::pipeline
