// What an untimed, watched repeat of a case tells of one rank. Times in ns, means over its steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

struct CollectiveRecord {
  std::string op{};     // allreduce, broadcast, ...
  std::string phase{};  // of the step in which it began
  int64_t bytes = 0;    // of this rank's tensors
  std::optional<double> start_ns{}, end_ns{};  // since the step began; unknown on a GPU
};

struct Profile {
  int64_t steps = 0;
  double step_ns = 0;                         // of the watched steps themselves: what the phases add up to
  std::vector<CollectiveRecord> collectives{};  // of a step, in the order they began; empty where steps differ in it
  double collectives_per_step = 0, collective_bytes_per_step = 0;
  // See Communication in spans.h; waiting is unknown where ranks have clocks of their own.
  std::optional<double> communication_ns{}, exposed_ns{}, hidden_ns{}, waiting_ns{};
  std::map<std::string, std::vector<double>> strategy_figures{};  // the strategy's own
  std::optional<int64_t> flop{};  // of this rank's part of a step
};

// What this machine can do, measured beside the case: one replica's threads, or its GPU, while all ranks try.
struct Peak {
  double gemm_flop_per_s = 0, triad_bytes_per_s = 0;
};

}  // namespace dpbench
