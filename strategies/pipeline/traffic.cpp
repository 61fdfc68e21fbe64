#include "strategies/pipeline/traffic.h"

#include <algorithm>
#include <set>

#include "strategies/parts/share.h"
#include "workloads/api/tensor_split.h"

namespace dpbench::pipeline {
namespace {

constexpr auto header_bytes = static_cast<int64_t>(header_words * sizeof(int64_t));

// The number and size of the messages that this rank sends and receives in a step.
struct Messages {
  int64_t sent = 0, received = 0;              // bytes
  int64_t sent_calls = 0, received_calls = 0;  // numbers of sends and of receives, without those of 0 bytes

  void send(int64_t bytes) { sent += bytes, sent_calls += bytes > 0 ? 1 : 0; }
  void receive(int64_t bytes) { received += bytes, received_calls += bytes > 0 ? 1 : 0; }
};

// Adds the activations and gradients that cross a boundary between ranks, and the header that precedes the first
// activation of each size.
void add_transfers(Messages& messages, const TrafficQuery& query, const Options& options,
                   const std::vector<Stage>& stages, int here, const RankShare& share) {
  const std::vector<int64_t>& parts = share.parts;
  const std::vector<int64_t> earlier = samples_of_parts(query.earlier, options.microbatches);
  std::set<int64_t> new_sizes(parts.begin(), parts.end());
  for (const int64_t size : earlier) new_sizes.erase(size);
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    const int from = stages[s].rank, to = stages[s + 1].rank;
    if (from == to || (from != here && to != here)) continue;
    // A stage without blocks comes after all blocks, and passes on the output of the model's last block.
    const int64_t of_sample =
        query.bytes_of({{"", query.block_runs().at(stages[s].last - 1).output}}) / share.sequence * share.between;
    for (const int64_t part : parts) messages.send(part * of_sample), messages.receive(part * of_sample);
    for (size_t i = 0; i < new_sizes.size(); ++i)
      from == here ? messages.send(header_bytes) : messages.receive(header_bytes);
  }
}

// Adds the messages in which the ranks that share a parameter exchange its gradient; one more element counts the ranks
// that used the parameter.
void add_ties(Messages& messages, const TrafficQuery& query, const std::vector<Stage>& stages, const RankShare& share) {
  for (const Placed& one : placed_parameters(query.model, stages)) {
    const at::Tensor* stored = find(share.parameters, one.name);
    if (!stored) continue;
    std::set<int> ranks;
    for (const int stage : one.stages) ranks.insert(stages[static_cast<size_t>(stage)].rank);
    const int64_t bytes = (stored->numel() + 1) * static_cast<int64_t>(c10::elementSize(query.stored(*stored)));
    for (size_t other = 1; other < ranks.size(); ++other) messages.send(bytes), messages.receive(bytes);
  }
}

}  // namespace

std::vector<int64_t> samples_of_parts(const std::vector<int64_t>& micro, int64_t microbatches) {
  std::vector<int64_t> parts;
  for (const int64_t samples : micro)
    for (const int64_t part : even_pieces(samples, static_cast<int>(std::clamp<int64_t>(samples, 1, microbatches))))
      parts.push_back(part);
  return parts;
}

std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const std::vector<Stage>& stages,
                             int here, const RankShare& share) {
  Messages messages;
  add_ties(messages, query, stages, share);
  add_transfers(messages, query, options, stages, here, share);
  return {{"pp", "send", messages.sent, messages.sent_calls},
          {"pp", "recv", messages.received, messages.received_calls},
          // The last stage broadcasts the loss, after a header.
          {"pp", "broadcast", header_bytes + query.element_bytes(), 2}};
}

}  // namespace dpbench::pipeline
