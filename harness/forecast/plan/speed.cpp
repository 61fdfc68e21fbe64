#include "harness/forecast/plan/speed.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/forecast/plan/layout.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench::forecast {
namespace {

// A measured step of a gpt model on one device.
struct Measured {
  gpt::Shape shape;
  double rows = 0, micro_batches = 1;  // rows: samples of a micro-batch
  double passes_s = 0, optimizer_s = 0;
  double bytes_per_s = 0;
};

double phase(const CaseRecord& record, const std::string& name) {
  double sum = 0;
  int ranks = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (const auto found = rank.phases_ns.find(name); found != rank.phases_ns.end()) sum += found->second, ++ranks;
  return ranks > 0 ? sum / ranks : 0;
}

std::optional<Measured> measured(const CaseRecord& record, Device device, Dtype dtype, int threads) {
  const CaseSpec& spec = record.spec;
  const bool fits = record.ok() && spec.workload == planned_workload && spec.world == 1 && spec.device == device &&
                    spec.dtype == dtype && spec.recompute == 0 && record.step_time_ns &&
                    (device == Device::cuda || spec.threads == threads);
  if (!fits) return std::nullopt;
  const double forward = phase(record, "forward"), backward = phase(record, "backward");
  const double optimizer = phase(record, "optimizer"), all = forward + backward + optimizer;
  if (!(forward > 0 && backward > 0)) return std::nullopt;
  Measured one{.shape = gpt::parse_shape(spec.model.empty() ? "small" : spec.model),
               .rows = static_cast<double>(spec.batch) / static_cast<double>(spec.accumulate),
               .micro_batches = static_cast<double>(spec.accumulate)};
  if (one.shape.experts > 0) return std::nullopt;
  // Divide the median step time between passes and optimizer as the profiled phases were divided.
  const double step_s = record.step_time_ns->median * 1e-9;
  one.passes_s = step_s * (forward + backward) / all;
  one.optimizer_s = step_s * optimizer / all;
  one.bytes_per_s = record.derived.peak_bytes_per_s.value_or(0);
  return one;
}

double layer_flop(const Measured& one, gpt::Precision precision) {
  return work_of(one.shape, gpt::Part::layer, {}, precision, one.rows).forward.flop;
}

// Returns the FLOP/s of matrix products in a measured step, after subtracting the time that memory traffic takes at the
// given bandwidth. The result is negative or infinite if this time is not below the time of the passes.
double rate_of(const Measured& one, gpt::Precision precision, double bytes_per_s) {
  const BlockWork work = work_of_model(one.shape, precision, one.rows);
  const double moving = bytes_per_s > 0 ? (work.forward.bytes + work.backward.bytes) / bytes_per_s : 0;
  return (work.forward.flop + work.backward.flop) / (one.passes_s / one.micro_batches - moving);
}

double parameters_of(const gpt::Shape& shape) {
  const auto count = [&](gpt::Part part) { return static_cast<double>(gpt::parameters(shape, part, {})); };
  return count(gpt::Part::embed) + static_cast<double>(shape.layers) * count(gpt::Part::layer) +
         count(gpt::Part::norm) + count(gpt::Part::head);
}

}  // namespace

double Speed::flop_per_s(double layer_flop) const {
  const auto above = std::ranges::lower_bound(rates, layer_flop, {}, &SizeRate::layer_flop);
  if (above == rates.begin()) return above->flop_per_s;
  if (above == rates.end()) return rates.back().flop_per_s;
  const SizeRate &low = *(above - 1), &high = *above;
  const double part = std::log(layer_flop / low.layer_flop) / std::log(high.layer_flop / low.layer_flop);
  return low.flop_per_s + part * (high.flop_per_s - low.flop_per_s);
}

double Speed::seconds(const Pass& pass, double layer_flop) const {
  return pass.flop / flop_per_s(layer_flop) + (bytes_per_s > 0 ? pass.bytes / bytes_per_s : 0);
}

Speed speed_of(const Report& report, Device device, Dtype dtype, int threads) {
  const gpt::Precision precision = precision_of(dtype);
  std::vector<Measured> all;
  std::string ids;
  for (const CaseRecord& record : report.cases)
    if (auto one = measured(record, device, dtype, threads)) {
      all.push_back(*one);
      ids += (ids.empty() ? "" : ", ") + record.spec.id;
    }
  if (all.empty())
    throw UsageError("run " + report.id + " has no measured case of gpt on one " + name_of(device) + " in " +
                     name_of(dtype) + (device == Device::cpu ? " with --threads " + std::to_string(threads) : "") +
                     " to fit to. Give " + rate_example + " instead of a run, or measure one: " +
                     shell_command("--workload gpt --model gpt2-124m --strategy " +
                                   (device == Device::cuda
                                        ? planned::gpu.name
                                        : planned::cpu.name + (" --cpus 1 --threads " + std::to_string(threads)))));
  // Use the memory bandwidth only if the memory traffic takes at most half of the forward and backward time in every
  // measured step.
  double memory = 0;
  for (const Measured& one : all) memory = std::max(memory, one.bytes_per_s);
  for (const Measured& one : all) {
    const double rate = rate_of(one, precision, memory);
    if (!(rate > 0) || rate > 2 * rate_of(one, precision, 0)) memory = 0;
  }
  std::map<double, std::vector<double>> by_size;
  Speed speed{.bytes_per_s = memory, .fitted_to = "run " + report.id + ": " + ids};
  double updates = 0;
  for (const Measured& one : all) {
    by_size[layer_flop(one, precision)].push_back(rate_of(one, precision, memory));
    updates += one.optimizer_s / parameters_of(one.shape);
  }
  speed.update_s = updates / static_cast<double>(all.size());
  for (const auto& [size, rates] : by_size) {
    double sum = 0;
    for (const double rate : rates) sum += rate;
    speed.rates.push_back({size, sum / static_cast<double>(rates.size())});
  }
  return speed;
}

std::optional<double> measured_overlap(const Report& report) {
  double sum = 0;
  int cases = 0;
  for (const CaseRecord& record : report.cases) {
    const CaseSpec& spec = record.spec;
    const bool overlaps = planned::named(spec.strategy).overlapped;
    if (!record.ok() || spec.workload != planned_workload || spec.device != Device::cuda || spec.world == 1 ||
        !overlaps)
      continue;
    if (record.derived.overlap) sum += *record.derived.overlap, ++cases;
  }
  return cases > 0 ? std::optional(sum / cases) : std::nullopt;
}

Speed constant_speed(double flop_per_s, const std::string& fitted_to) {
  return {.rates = {{.layer_flop = 1, .flop_per_s = flop_per_s}}, .fitted_to = fitted_to};
}

gpt::Precision precision_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return gpt::Precision::float64;
    case Dtype::bf16:
      return gpt::Precision::bfloat16;
    default:
      return gpt::Precision::float32;
  }
}

}  // namespace dpbench::forecast
