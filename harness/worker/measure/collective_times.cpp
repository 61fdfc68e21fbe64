#include "harness/worker/measure/collective_times.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

using Calls = std::deque<CollectiveLog::Call>;
// A profile with more collectives than this has no communication times, which limits memory.
constexpr size_t max_collectives = 200000;

// Returns the maximum of `values` over the ranks of the group, element by element.
at::Tensor largest(const at::Tensor& values, c10d::ProcessGroup& group, at::Device device) {
  std::vector<at::Tensor> box = {values.to(device)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group.getDefaultBackend()->allreduce(box, options)->wait();
  return box[0].cpu();
}

// Fills last_entered, the time at which the last rank of its group called each collective. Every rank must call it.
// Returns false if a rank has no times or the numbers of collectives differ.
bool find_last_entered(const Calls& seen, bool usable, const Mesh& mesh, at::Device device,
                       std::vector<EnteredCollective>& entered) {
  bool known = usable;
  std::vector<Axis> groups = mesh.axes();
  if (groups.size() > 1) groups.push_back({.name = world_axis, .group = mesh.group()});
  for (const Axis& axis : groups) {
    if (!axis.group) continue;
    std::vector<size_t> mine;
    for (size_t i = 0; usable && i < seen.size(); ++i)
      if (seen[i].axis == axis.name) mine.push_back(i);
    const auto count = static_cast<int64_t>(mine.size());
    const at::Tensor counts = largest(at::tensor({count, -count, int64_t{!usable}}, at::kLong), *axis.group, device);
    const int64_t* found = counts.data_ptr<int64_t>();
    if (found[0] != count || found[1] != -count || found[2] != 0) known = false;
    if (found[0] != -found[1] || found[2] != 0 || count == 0) continue;
    at::Tensor starts = at::empty({count}, at::kLong);
    for (size_t i = 0; i < mine.size(); ++i) starts.data_ptr<int64_t>()[i] = entered[mine[i]].span.from;
    starts = largest(starts, *axis.group, device);
    for (size_t i = 0; i < mine.size(); ++i) entered[mine[i]].last_entered = starts.data_ptr<int64_t>()[i];
  }
  return known;
}

// Returns the collectives of a step, with mean times over all steps. Returns an empty list if the steps differ in their
// collectives.
std::vector<CollectiveRecord> collectives_of_step(const Calls& seen, bool timed, const std::vector<int64_t>& begins) {
  const size_t steps = begins.size(), count = seen.size() / steps;
  if (seen.size() % steps != 0) return {};
  std::vector<CollectiveRecord> each(count);
  for (size_t i = 0; i < seen.size(); ++i) {
    CollectiveRecord& mean = each[i % count];
    const auto& one = seen[i];
    const std::string phase(one.phase < 0 ? "" : phase_names[static_cast<size_t>(one.phase)]);
    if (i < count) mean = {.op = one.op, .axis = one.axis, .phase = phase, .bytes = one.bytes};
    if (mean.op != one.op || mean.axis != one.axis || mean.bytes != one.bytes) return {};
    if (!timed) continue;
    const auto add = [&](std::optional<double>& sum, CollectiveLog::Time time) {
      sum = sum.value_or(0) + static_cast<double>(ns_of(time) - begins[i / count]) / static_cast<double>(steps);
    };
    add(mean.start_ns, one.start);
    add(mean.end_ns, one.end);
  }
  return each;
}

}  // namespace

void describe_collectives(const Calls& seen, const StepTimes& times, const Mesh& mesh, at::Device device,
                          bool common_clock, RankRecord& record) {
  Profile& profile = *record.profile;
  const auto steps = static_cast<double>(times.begins.size());
  int64_t bytes = 0;
  for (const auto& one : seen) bytes += one.bytes;
  profile.collectives_per_step = static_cast<double>(seen.size()) / steps;
  profile.collective_bytes_per_step = static_cast<double>(bytes) / steps;
  const bool timed = device.is_cpu() &&
                     std::ranges::all_of(seen, [](const auto& one) { return one.end.load() != CollectiveLog::Time{}; });
  profile.collectives = collectives_of_step(seen, timed, times.begins);
  const bool usable = timed && seen.size() <= max_collectives;
  std::vector<EnteredCollective> entered;
  if (usable)
    for (const auto& one : seen) entered.push_back({{ns_of(one.start), ns_of(one.end)}, ns_of(one.start)});
  const bool waits_known = common_clock && find_last_entered(seen, usable, mesh, device, entered);
  if (!usable) return;
  const Communication found = communication_of(entered, times.blocked);
  profile.communication_ns = static_cast<double>(found.total_ns) / steps;
  profile.exposed_ns = static_cast<double>(found.exposed_ns) / steps;
  profile.hidden_ns = static_cast<double>(found.hidden_ns) / steps;
  if (!waits_known) return;
  profile.waiting_ns = static_cast<double>(found.waiting_ns) / steps;
  auto& communication = record.phases_ns["communication"];
  const double waited = std::min(*profile.waiting_ns, communication);
  communication -= waited;
  if (waited > 0) record.phases_ns["waiting"] += waited;
}

}  // namespace dpbench
