// The flags of `dpbench collectives`. The program dpbench-micro, which the command runs, parses the same flags.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/front/cli/options.h"

namespace CLI {
class App;
}

namespace dpbench {

enum class CollectiveName {
  allreduce,
  reduce,
  reduce_scatter,
  allgather,
  broadcast,
  gather,
  scatter,
  alltoall,
  sendrecv,
  barrier
};
template <>
inline constexpr auto enum_names<CollectiveName> =
    std::to_array<std::string_view>({"allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather",
                                     "scatter", "alltoall", "sendrecv", "barrier"});

enum class ElementName { f32, f64, bf16, i32, i64 };
template <>
inline constexpr auto enum_names<ElementName> = std::to_array<std::string_view>({"f32", "f64", "bf16", "i32", "i64"});

enum class ReductionName { sum, max, min, product };
template <>
inline constexpr auto enum_names<ReductionName> = std::to_array<std::string_view>({"sum", "max", "min", "product"});

// Largest --world: with more ranks, the results of --op product would overflow.
inline constexpr int most_world = 64;

struct CollectivesOptions {
  // Collectives to measure; empty: all, and dpbench-micro also runs its other benchmarks.
  std::vector<CollectiveName> collectives{};
  std::vector<ElementName> dtypes{ElementName::f32};
  std::vector<ReductionName> ops{ReductionName::sum};
  bool in_place = false;      // true: reduce_scatter and allgather are measured in place too
  bool pairs = false;         // true: only sends between each pair of ranks are measured
  std::vector<int> worlds{};  // world sizes; empty: 2, or the number of ranks that an outside launcher started
  std::vector<std::string> backends{};  // backends to measure; empty: all that support the device
  bool cuda = false;
  int64_t least_bytes = 4, most_bytes = 256 << 20, factor = 4;
  Form output = Form::table;
};

void add_collectives_flags(CLI::App& app, CollectivesOptions& o);

}  // namespace dpbench
