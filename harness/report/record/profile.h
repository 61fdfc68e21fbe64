// What an untimed, watched repeat of a case tells of one rank. Times in ns, means over its steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"

namespace dpbench {

struct CollectiveRecord {
  std::string op{}, phase{};
  int64_t bytes = 0;
  std::optional<double> start_ns{}, end_ns{};
};

template <>
struct Table<CollectiveRecord> {
  using C = CollectiveRecord;
  static constexpr const char* name = "collective";
  static constexpr std::tuple fields{Field{"op", "-", &C::op, "allreduce, broadcast, ...", range::not_empty},
                                     Field{"phase", "-", &C::phase, "of the step in which it began"},
                                     Field{"bytes", "bytes", &C::bytes, "of this rank's tensors", range::not_negative},
                                     Field{"start_ns", "ns", &C::start_ns, "since the step began; null on a GPU"},
                                     Field{"end_ns", "ns", &C::end_ns, "likewise"}};
};

struct Profile {
  int64_t steps = 0;
  double step_ns = 0;
  std::vector<CollectiveRecord> collectives{};
  double collectives_per_step = 0, collective_bytes_per_step = 0;
  std::optional<double> communication_ns{}, exposed_ns{}, hidden_ns{}, waiting_ns{};
  std::map<std::string, std::vector<double>> strategy_figures{};
  std::optional<int64_t> flop{};
};

template <>
struct Table<Profile> {
  using P = Profile;
  static constexpr const char* name = "profile";
  static constexpr std::tuple fields{
      Field{"steps", "steps", &P::steps, "watched", range::positive},
      Field{"step_ns", "ns", &P::step_ns, "of a watched step: what the phases add up to", range::above_zero},
      later(Field{"communication_ns", "ns", &P::communication_ns, "in which a collective was under way",
                  range::not_negative}),
      later(Field{"exposed_ns", "ns", &P::exposed_ns, "of it, the part that nothing hid", range::not_negative}),
      later(Field{"hidden_ns", "ns", &P::hidden_ns, "of it, the part behind computation", range::not_negative}),
      later(Field{"waiting_ns", "ns", &P::waiting_ns,
                  "for other ranks to arrive; null where ranks have clocks of their own", range::not_negative}),
      later(
          Field{"collectives_per_step", "collectives", &P::collectives_per_step, "of this rank", range::not_negative}),
      later(Field{"collective_bytes_per_step", "bytes", &P::collective_bytes_per_step, "of this rank's tensors",
                  range::not_negative}),
      Field{"collectives", "-", &P::collectives, "of a step, in the order they began; empty where steps differ"},
      later(Field{"strategy_figures", "-", &P::strategy_figures, "what the strategy tells; names end in their unit"}),
      later(Field{"flop", "operations", &P::flop, "of this rank's part of a step", range::not_negative})};
};

// What this machine can do, measured beside the case: one replica's threads, or its GPU, while all ranks try.
struct Peak {
  double gemm_flop_per_s = 0, triad_bytes_per_s = 0;
};

template <>
struct Table<Peak> {
  using P = Peak;
  static constexpr const char* name = "peak";
  static constexpr std::tuple fields{
      Field{"gemm_flop_per_s", "operations / s", &P::gemm_flop_per_s, "of a large matrix product", range::above_zero},
      Field{"triad_bytes_per_s", "bytes / s", &P::triad_bytes_per_s, "of a = b + c * x over large arrays",
            range::above_zero}};
};

}  // namespace dpbench
