// The JSON document of a plan of layouts, `dpbench plan -o json`.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/forecast/output.h"
#include "harness/forecast/plan/layout_plan.h"
#include "harness/report/base/field.h"

namespace dpbench::forecast {

struct LayoutRow {
  std::string text{}, strategy{}, mesh{};
  int64_t micro_batches = 1, rows = 1, recompute = 0;
  bool sequence = false;
  std::optional<std::string> schedule{};
  int stages = 1;
  std::string flags{};
  std::optional<bool> reshard{};
};

struct MemoryRow : Memory {
  double sum = 0;
};

struct PredictionRow {
  bool projected = true;
  LayoutRow layout{};
  bool fits = true;
  double step_s = 0, tokens_per_s = 0;
  Time time_s{};
  MemoryRow memory_bytes{};
};

struct BestRow : PredictionRow {
  std::vector<std::string> reasons{};
};

struct SpeedRow {
  std::string fitted_to{};
  std::vector<SizeRate> rates{};
  std::optional<double> bytes_per_s{};
  double update_s = 0;
};

struct PlanDocument {
  bool projected = true;
  std::string model{};
  Dtype dtype = Dtype::f32;
  Device device = Device::cpu;
  int devices = 1;
  int64_t batch = 1;
  std::optional<double> memory_bytes{};
  SpeedRow speed{};
  double overlap = 0;
  std::optional<Network> network{};
  int64_t examined = 0, too_large = 0;
  std::vector<BestRow> best{};
  std::vector<PredictionRow> front{}, layouts{};
};

}  // namespace dpbench::forecast

namespace dpbench {

template <>
struct Table<forecast::LayoutRow> {
  using L = forecast::LayoutRow;
  static constexpr const char* name = "layout";
  static constexpr std::tuple fields{
      Field{"text", "-", &L::text, "the layout in a few words", range::not_empty},
      Field{"strategy", "-", &L::strategy, "parallelism strategy", range::not_empty},
      Field{"mesh", "-", &L::mesh, "the ranks as a grid with named axes; empty: one device"},
      Field{"micro_batches", "micro-batches", &L::micro_batches, "micro-batches of a step", range::positive},
      Field{"rows", "samples", &L::rows, "samples of a micro-batch", range::positive},
      Field{"recompute", "blocks", &L::recompute,
            "blocks of the model of which only the input is kept until the backward pass", range::not_negative},
      Field{"sequence", "-", &L::sequence, "sequence parallelism, the option tp.sequence"},
      Field{"schedule", "-", &L::schedule, "schedule of the pipeline; null: none"},
      Field{"stages", "stages", &L::stages, "pipeline stages per rank", range::positive},
      Field{"flags", "-", &L::flags, "flags of `dpbench run`, without the model", range::not_empty},
      unless_empty(Field{"reshard", "-", &L::reshard,
                         "gathered parameters are freed after the forward pass; absent: the layout shards none"})};
};

template <>
struct Table<forecast::Time> {
  using T = forecast::Time;
  static constexpr const char* name = "time";
  static constexpr std::tuple fields{
      Field{"computing", "s", &T::computing_s, "forward and backward passes of the busiest rank", range::not_negative},
      Field{"optimizer", "s", &T::optimizer_s, "update of the parameters", range::not_negative},
      Field{"tensor", "s", &T::tensor_s, "collectives over the axis tp that computing does not hide",
            range::not_negative},
      Field{"context", "s", &T::context_s, "collectives over the axis cp", range::not_negative},
      Field{"data", "s", &T::data_s, "collectives over the axes dp and shard", range::not_negative},
      Field{"bubble", "s", &T::bubble_s, "idle time and messages of a pipeline", range::not_negative}};
};

template <>
struct Table<forecast::MemoryRow> {
  using M = forecast::MemoryRow;
  static constexpr const char* name = "memory";
  static constexpr std::tuple fields{
      Field{"total", "bytes", &M::sum, "sum of the parts", range::not_negative},
      Field{"parameters", "bytes", &M::parameters, "parameters of the rank with most memory", range::not_negative},
      Field{"gradients", "bytes", &M::gradients, "gradients", range::not_negative},
      Field{"state", "bytes", &M::state, "state of the optimizer", range::not_negative},
      Field{"activations", "bytes", &M::activations, "activations", range::not_negative},
      Field{"buffers", "bytes", &M::buffers, "gathered parameters, and gradients during their reduction",
            range::not_negative}};
};

template <>
struct Table<forecast::PredictionRow> {
  using P = forecast::PredictionRow;
  static constexpr const char* name = "prediction";
  static constexpr std::tuple fields{
      Field{"projected", "-", &P::projected, "true: not measured"},
      Field{"layout", "-", &P::layout, "the layout"},
      Field{"fits", "-", &P::fits, "the layout needs at most the memory of a device"},
      Field{"step_s", "s", &P::step_s, "time of a step", range::above_zero},
      Field{"tokens_per_s", "tokens / s", &P::tokens_per_s, "throughput of all devices", range::above_zero},
      Field{"time_s", "-", &P::time_s, "parts of step_s"},
      Field{"memory_bytes", "-", &P::memory_bytes, "memory at the peak of a step"}};
};

template <>
struct Table<forecast::BestRow> {
  static constexpr const char* name = "best";
  static constexpr auto fields = std::tuple_cat(
      Table<forecast::PredictionRow>::fields,
      std::tuple(Field{"reasons", "-", &forecast::BestRow::reasons, "why the layout is among the best"}));
};

template <>
struct Table<forecast::SizeRate> {
  using S = forecast::SizeRate;
  static constexpr const char* name = "rate";
  static constexpr std::tuple fields{
      Field{"layer_flop", "operations", &S::layer_flop, "operations of a layer's forward pass", range::not_negative},
      Field{"flop_per_s", "operations / s", &S::flop_per_s, "speed of a device for layers of this size",
            range::above_zero}};
};

template <>
struct Table<forecast::SpeedRow> {
  using S = forecast::SpeedRow;
  static constexpr const char* name = "speed";
  static constexpr std::tuple fields{
      Field{"fitted_to", "-", &S::fitted_to, "source of the speed", range::not_empty},
      Field{"rates", "-", &S::rates, "speed by the size of a layer"},
      Field{"bytes_per_s", "bytes / s", &S::bytes_per_s, "memory bandwidth; null: the rates include memory traffic"},
      Field{"update_s", "s", &S::update_s, "time of the optimizer per parameter", range::not_negative}};
};

template <>
struct Table<forecast::PlanDocument> {
  using P = forecast::PlanDocument;
  static constexpr const char *name = "plan", *title = "dpbench plan of layouts, major version 1";
  static constexpr int minor_version = 0;
  static constexpr std::tuple fields{
      Field{"projected", "-", &P::projected, "true: not measured"},
      Field{"model", "-", &P::model, "model of gpt", range::not_empty},
      Field{"dtype", "-", &P::dtype, "floating-point type"},
      Field{"device", "-", &P::device, "device type"},
      Field{"devices", "devices", &P::devices, "number of devices", range::positive},
      Field{"batch", "samples", &P::batch, "samples of a step, over all devices", range::positive},
      Field{"memory_bytes", "bytes", &P::memory_bytes, "memory of a device; null: no limit"},
      Field{"speed", "-", &P::speed, "speed of a device"},
      Field{"overlap", "1", &P::overlap, "share of an overlapped collective that computing hides", range::share},
      Field{"network", "-", &P::network, "links between the devices; null: one device"},
      Field{"examined", "layouts", &P::examined, "layouts of which the memory was predicted", range::not_negative},
      Field{"too_large", "layouts", &P::too_large, "layouts that exceed memory_bytes", range::not_negative},
      Field{"best", "-", &P::best, "up to three fastest layouts"},
      Field{"front", "-", &P::front, "layouts that no other one beats in both time and memory, fastest first"},
      Field{"layouts", "-", &P::layouts,
            "the layouts that no other one of the same mesh and strategy beats in both time and memory, or with --mesh "
            "all that fit; then the smallest layout of each mesh and strategy of which none fits"}};
};

}  // namespace dpbench
