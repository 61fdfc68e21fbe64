// Profile of one rank: the parts of a step, measured in extra, untimed steps of a case. Times are in ns and are means
// over these steps.
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
  std::string op{}, axis{}, phase{};
  int64_t bytes = 0;
  std::optional<double> start_ns{}, end_ns{};
};

template <>
struct Table<CollectiveRecord> {
  using C = CollectiveRecord;
  static constexpr const char* name = "collective";
  static constexpr std::tuple fields{
      Field{"op", "-", &C::op, "operation: allreduce, broadcast, ...", range::not_empty},
      later(Field{"axis", "-", &C::axis,
                  "axis of the mesh over whose ranks it runs; world: over all ranks; dp/2: over 2 neighbours on dp; "
                  "since 1.6"}),
      Field{"phase", "-", &C::phase, "phase of the step in which it began"},
      Field{"bytes", "bytes", &C::bytes, "size of this rank's tensors", range::not_negative},
      Field{"start_ns", "ns", &C::start_ns, "start time since the step began; null on a GPU"},
      Field{"end_ns", "ns", &C::end_ns, "end time since the step began; null on a GPU"}};
};

// Communication volume per step of one collective operation over one axis of the mesh: calls and bytes as counted, and
// by the strategy's formula.
struct LedgerEntry {
  std::string axis{}, op{};
  double calls = 0, bytes = 0;
  std::map<std::string, double> phase_bytes{};
  std::optional<double> formula_bytes{}, formula_calls{};
};

template <>
struct Table<LedgerEntry> {
  using L = LedgerEntry;
  static constexpr const char* name = "ledger entry";
  static constexpr std::tuple fields{
      Field{"axis", "-", &L::axis,
            "axis of the mesh over whose ranks it runs; world: over all ranks; dp/2: over 2 neighbours on dp",
            range::not_empty},
      Field{"op", "-", &L::op, "operation: allreduce, broadcast, ...", range::not_empty},
      Field{"calls", "calls", &L::calls, "calls per step", range::not_negative},
      Field{"bytes", "bytes", &L::bytes, "size of this rank's tensors, per step", range::not_negative},
      Field{"phase_bytes", "bytes", &L::phase_bytes,
            "bytes by the phase of the step in which the calls began; none: in no phase, or on another thread"},
      Field{"formula_bytes", "bytes", &L::formula_bytes,
            "bytes by the strategy's formula; 0: it lacks the operation; null: no formula", range::not_negative},
      later(Field{"formula_calls", "calls", &L::formula_calls,
                  "calls by the strategy's formula; null: no formula, or one without their number; since 1.10",
                  range::not_negative})};
};

// Memory of the tensors of one rank at the peak of a step, in bytes. The parts add up to it.
struct MemoryParts {
  int64_t parameters = 0, gradients = 0, state = 0, activations = 0, buffers = 0, temporary = 0;
  int64_t total() const { return parameters + gradients + state + activations + buffers + temporary; }
};

template <>
struct Table<MemoryParts> {
  using M = MemoryParts;
  static constexpr const char* name = "memory parts";
  static constexpr std::tuple fields{
      Field{"parameters", "bytes", &M::parameters,
            "parameters and buffers of the model that the process keeps, of all its replicas", range::not_negative},
      Field{"gradients", "bytes", &M::gradients,
            "gradients, with buckets of which they are views, and with buckets in memory that ranks share",
            range::not_negative},
      Field{"state", "bytes", &M::state, "state of the optimizer", range::not_negative},
      Field{"activations", "bytes", &M::activations, "tensors allocated in forward passes", range::not_negative},
      Field{"buffers", "bytes", &M::buffers,
            "tensors allocated for communication, such as gathered parameters, and others kept between steps, such as "
            "buckets of which gradients are no views",
            range::not_negative},
      Field{"temporary", "bytes", &M::temporary,
            "other tensors, such as those of a backward pass or of an optimizer's step", range::not_negative}};
};

// Bytes of the tensors of the largest rank at the peak of a step, by the closed formulas of the model and its layout.
struct MemoryFormula {
  int64_t parameters = 0, gradients = 0, state = 0, activations = 0, buffers = 0;
  int64_t total() const { return parameters + gradients + state + activations + buffers; }
};

template <>
struct Table<MemoryFormula> {
  using M = MemoryFormula;
  static constexpr const char* name = "memory formula";
  static constexpr std::tuple fields{
      Field{"parameters", "bytes", &M::parameters, "parameters", range::not_negative},
      Field{"gradients", "bytes", &M::gradients, "gradients", range::not_negative},
      Field{"state", "bytes", &M::state, "state of the optimizer", range::not_negative},
      Field{"activations", "bytes", &M::activations,
            "activations and temporary tensors: the parts activations and temporary of a measured rank",
            range::not_negative},
      Field{"buffers", "bytes", &M::buffers, "gathered parameters, and gradients during their reduction",
            range::not_negative}};
};

struct Profile {
  int64_t steps = 0;
  double step_ns = 0;
  std::vector<CollectiveRecord> collectives{};
  std::vector<LedgerEntry> ledger{};
  double collectives_per_step = 0, collective_bytes_per_step = 0;
  std::optional<double> communication_ns{}, exposed_ns{}, hidden_ns{}, waiting_ns{}, queue_ns{}, cpu_ns{};
  bool disturbed = false;
  std::map<std::string, std::vector<double>> strategy_figures{};
  std::optional<int64_t> flop{};
  std::optional<MemoryParts> memory{};
};

template <>
struct Table<Profile> {
  using P = Profile;
  static constexpr const char* name = "profile";
  static constexpr std::tuple fields{
      Field{"steps", "steps", &P::steps, "number of profiled steps", range::positive},
      Field{"step_ns", "ns", &P::step_ns, "mean time of a profiled step; the phases add up to it", range::above_zero},
      later(Field{"communication_ns", "ns", &P::communication_ns, "time per step with a collective in progress",
                  range::not_negative}),
      later(Field{"exposed_ns", "ns", &P::exposed_ns, "part of communication_ns not overlapped with computation",
                  range::not_negative}),
      later(Field{"hidden_ns", "ns", &P::hidden_ns, "part of communication_ns overlapped with computation",
                  range::not_negative}),
      later(Field{"waiting_ns", "ns", &P::waiting_ns,
                  "time per step waiting for other ranks to arrive; null if the ranks do not share a clock",
                  range::not_negative}),
      later(Field{"queue_ns", "ns", &P::queue_ns,
                  "longest time per step for which a thread was ready to run but had no core; since 1.5",
                  range::not_negative}),
      later(Field{"cpu_ns", "ns", &P::cpu_ns, "CPU time of all threads of the process per step; since 1.6",
                  range::not_negative}),
      later(Field{"disturbed", "-", &P::disturbed,
                  "a replica of the case did not have its cores in the profiled steps: the profile's counts hold, its "
                  "other times were dropped; since 1.6"}),
      later(Field{"collectives_per_step", "collectives", &P::collectives_per_step, "collectives of this rank per step",
                  range::not_negative}),
      later(Field{"collective_bytes_per_step", "bytes", &P::collective_bytes_per_step,
                  "size of this rank's tensors in collectives, per step", range::not_negative}),
      Field{"collectives", "-", &P::collectives, "collectives of a step, in starting order; empty if steps differ"},
      later(Field{"ledger", "-", &P::ledger, "bytes of each collective operation and those of the formula; since 1.6"}),
      later(Field{"strategy_figures", "-", &P::strategy_figures,
                  "figures reported by the strategy; each name ends with its unit"}),
      later(Field{"flop", "operations", &P::flop, "floating-point operations of this rank per step",
                  range::not_negative}),
      later(Field{"memory", "-", &P::memory,
                  "memory of CPU tensors of 8 KiB or more at the peak of a step, by part; null on a GPU (see "
                  "peak_device_bytes), if steps are replayed, or if the strategy shows only copies of its tensors; "
                  "since 1.9"})};
};

// Peak compute and memory rates of the machine, measured in the same run as the case, with the threads or the GPU of
// one replica, while all ranks measure at once.
struct Peak {
  double gemm_flop_per_s = 0, triad_bytes_per_s = 0;
};

template <>
struct Table<Peak> {
  using P = Peak;
  static constexpr const char* name = "peak";
  static constexpr std::tuple fields{Field{"gemm_flop_per_s", "operations / s", &P::gemm_flop_per_s,
                                           "rate of a large matrix product", range::above_zero},
                                     Field{"triad_bytes_per_s", "bytes / s", &P::triad_bytes_per_s,
                                           "memory bandwidth of a = b + c * x over large arrays", range::above_zero}};
};

}  // namespace dpbench
