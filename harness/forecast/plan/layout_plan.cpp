#include "harness/forecast/plan/layout_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "harness/forecast/output.h"
#include "harness/forecast/plan/words.h"

namespace dpbench::forecast {
namespace {

constexpr size_t most_advised = 3;

std::string family_of(const Layout& layout) { return layout.strategy + " " + text_of(layout.mesh); }

bool faster(const Prediction& one, const Prediction& other) { return one.time.step_s() < other.time.step_s(); }

// Returns the layouts on the Pareto front of step time and memory, the fastest first.
std::vector<Prediction> front_of(std::vector<Prediction> all) {
  std::ranges::stable_sort(all, faster);
  std::vector<Prediction> front;
  for (const Prediction& one : all)
    if (front.empty() || one.memory.total() < front.back().memory.total()) front.push_back(one);
  return front;
}

// Returns the step time of the fastest layout that `allowed` accepts, relative to that of the best layout, such as
// "takes 1.20 times as long". Returns "does not fit" if `allowed` accepts only layouts that do not fit into memory, and
// "does not exist" if it accepts none.
template <class Allowed>
std::string ratio_text(const LayoutPlan& plan, const Prediction& best, const Allowed& allowed) {
  for (const Prediction& one : plan.fitting)
    if (allowed(one.layout))
      return "takes " + text_of_number(one.time.step_s() / best.time.step_s(), "%.2f") + " times as long";
  const bool exists = std::ranges::any_of(plan.unfitting, [&](const Prediction& one) { return allowed(one.layout); });
  return exists ? "does not fit" : "does not exist";
}

// Returns a text for each axis of the fastest layout: how much slower the best layout without this axis is.
std::vector<std::string> reasons_for_fastest(const LayoutPlan& plan, const Prediction& best) {
  std::vector<std::string> reasons;
  for (const AxisSize& axis : best.layout.mesh)
    reasons.push_back("without " + axis.name + ", the best layout " +
                      ratio_text(plan, best, [&](const Layout& one) { return one.size(axis.name) == 1; }));
  return reasons;
}

std::string compared(const Prediction& one, const Prediction& fastest) {
  const double slower = 100 * (one.time.step_s() / fastest.time.step_s() - 1);
  const double memory = 100 * (one.memory.total() / fastest.memory.total() - 1);
  return text_of_number(slower, "%.1f") + " % slower than 1, with " + text_of_number(std::abs(memory), "%.0f") +
         (memory < 0 ? " % less memory" : " % more memory");
}

// Compares two meshes without regard to the order of their axes, because plan tries only one order of axes.
bool same_sizes(const MeshShape& one, const MeshShape& other) {
  return one.size() == other.size() &&
         std::ranges::all_of(one, [&](const AxisSize& axis) { return size_of(other, axis.name) == axis.size; });
}

bool is_asked(const PlanRequest& asked, const Layout& layout) {
  const auto same = [&](const MeshShape& mesh) { return same_sizes(mesh, layout.mesh); };
  return (asked.meshes.empty() || std::ranges::any_of(asked.meshes, same)) &&
         (asked.strategies.empty() || std::ranges::count(asked.strategies, layout.strategy) > 0);
}

// Predicts the step times of the layouts of one mesh and strategy. If only their Pareto front is asked for, removes
// layouts that are certain to be slower than another one that needs no more memory.
std::vector<Prediction> timed(std::vector<Prediction> all, const PlanRequest& asked, bool front_only) {
  std::vector<Prediction*> by_memory;
  for (Prediction& one : all) by_memory.push_back(&one);
  std::ranges::stable_sort(by_memory, {}, [](const Prediction* one) { return one->memory.total(); });
  double most_s = std::numeric_limits<double>::infinity();
  for (Prediction* one : by_memory) {
    const auto time = time_within(asked.shape, precision_of(asked.dtype), one->layout, asked.machine, most_s);
    one->time = time.value_or(Time{});  // 0 s: removed below
    if (time && front_only) most_s = std::min(most_s, time->step_s());
  }
  std::erase_if(all, [](const Prediction& one) { return one.time.step_s() == 0; });
  return front_only ? front_of(std::move(all)) : all;
}

}  // namespace

LayoutPlan plan_layouts(const PlanRequest& asked) {
  LayoutPlan plan{.asked = asked};
  const Space space{.shape = asked.shape,
                    .precision = precision_of(asked.dtype),
                    .devices = asked.devices,
                    .host_size = asked.machine.network.host_size,
                    .gpus = asked.gpus,
                    .batch = asked.batch};
  std::map<std::string, std::vector<Prediction>> fitting;
  std::map<std::string, Prediction> smallest;
  each_layout(space, [&](const Layout& layout) {
    if (!is_asked(asked, layout)) return;
    ++plan.examined;
    Prediction one{.layout = layout, .memory = memory_of(space.shape, space.precision, layout)};
    if (asked.memory_bytes > 0 && one.memory.total() > asked.memory_bytes) {
      ++plan.too_large;
      const auto [known, is_new] = smallest.try_emplace(family_of(layout), one);
      if (!is_new && one.memory.total() < known->second.memory.total()) known->second = one;
      return;
    }
    fitting[family_of(layout)].push_back(std::move(one));
  });
  for (auto& [family, all] : fitting)
    for (Prediction& one : timed(std::move(all), asked, asked.meshes.empty())) plan.fitting.push_back(std::move(one));
  for (auto& [family, one] : smallest) {
    if (fitting.contains(family)) continue;
    one.time = time_of(space.shape, space.precision, one.layout, asked.machine);
    plan.unfitting.push_back(std::move(one));
  }
  std::ranges::stable_sort(plan.fitting, faster);
  std::ranges::stable_sort(plan.unfitting, {}, [](const Prediction& one) { return one.memory.total(); });
  plan.front = front_of(plan.fitting);
  std::vector<std::string> seen;
  for (const Prediction& one : plan.fitting) {
    if (plan.best.size() == most_advised) break;
    if (std::ranges::count(seen, family_of(one.layout)) > 0) continue;
    seen.push_back(family_of(one.layout));
    std::vector<std::string> reasons = {parts_text(one.time), parts_text(one.memory)};
    if (plan.best.empty() && asked.meshes.empty() && asked.strategies.empty())
      for (std::string& reason : reasons_for_fastest(plan, one)) reasons.push_back(std::move(reason));
    else if (!plan.best.empty())
      reasons.push_back(compared(one, plan.best.front().prediction));
    plan.best.push_back({one, reasons});
  }
  return plan;
}

size_t place_among_best(const LayoutPlan& plan, const Layout& layout) {
  for (size_t i = 0; i < plan.best.size(); ++i)
    if (text_of(plan.best[i].prediction.layout) == text_of(layout)) return i + 1;
  return 0;
}

double tokens_per_s(const LayoutPlan& plan, const Prediction& prediction) {
  return static_cast<double>(plan.asked.batch) * static_cast<double>(plan.asked.shape.seq) / prediction.time.step_s();
}

}  // namespace dpbench::forecast
