#include <algorithm>

#include "harness/forecast/output.h"
#include "harness/forecast/plan/layout_plan.h"
#include "harness/forecast/plan/layout_plan_document.h"
#include "harness/forecast/plan/words.h"
#include "harness/report/validate/schema.h"

namespace dpbench::forecast {
namespace {

constexpr size_t most_rows = 12;

std::string ms(double seconds) { return text_of_number(1e3 * seconds, seconds < 0.1 ? "%.3f" : "%.1f"); }
std::string percent(double part, double whole) { return text_of_number(100 * part / whole, "%.0f %%"); }

std::vector<std::string> row_of(const LayoutPlan& plan, const Prediction& one) {
  const Time& time = one.time;
  const double step = time.step_s(), between = time.tensor_s + time.context_s + time.data_s;
  const size_t place = place_among_best(plan, one.layout);
  return {place == 0 ? "" : std::to_string(place),
          text_of(one.layout),
          ms(step),
          text_of_number(tokens_per_s(plan, one) / plan.asked.devices, "%.0f"),
          gigabytes(one.memory.total()),
          gigabytes(one.memory.activations),
          percent(time.computing_s + time.optimizer_s, step),
          percent(between, step),
          percent(time.bubble_s, step)};
}

LayoutRow layout_row(const Layout& layout, int threads) {
  LayoutRow row{.text = text_of(layout),
                .strategy = layout.strategy,
                .mesh = text_of(layout.mesh),
                .micro_batches = layout.micro_batches,
                .rows = layout.rows,
                .recompute = layout.recompute,
                .sequence = layout.sequence,
                .stages = layout.stages,
                .flags = flags_of(layout, threads)};
  if (layout.schedule) row.schedule = layout.schedule->name;
  if (layout.sharding == Sharding::parameters) row.reshard = layout.reshard;
  return row;
}

PredictionRow prediction_row(const LayoutPlan& plan, const Prediction& one, bool fits) {
  return {.layout = layout_row(one.layout, plan.asked.gpus ? 0 : plan.asked.machine.threads),
          .fits = fits,
          .step_s = one.time.step_s(),
          .tokens_per_s = tokens_per_s(plan, one),
          .time_s = one.time,
          .memory_bytes = {one.memory, one.memory.total()}};
}

SpeedRow speed_row(const Speed& speed) {
  SpeedRow row{.fitted_to = speed.fitted_to, .rates = speed.rates, .update_s = speed.update_s};
  if (speed.bytes_per_s > 0) row.bytes_per_s = speed.bytes_per_s;
  return row;
}

// Says which of the examined layouts a plan shows; empty if it shows all.
std::string shown_text(const LayoutPlan& plan) {
  const size_t shown = plan.fitting.size() + plan.unfitting.size();
  if (shown == plan.examined) return "";
  std::string text = std::to_string(shown) + " of " + std::to_string(plan.examined) + " layouts are shown: ";
  text += plan.asked.meshes.empty()
              ? "those that no other layout with the same mesh and strategy beats in time and memory"
              : "all that fit";
  if (!plan.unfitting.empty()) text += ", and the smallest of each mesh and strategy of which none fits";
  return text;
}

}  // namespace

std::vector<std::vector<std::string>> layout_rows(const LayoutPlan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"BEST", "LAYOUT", "STEP ms", "TOKENS/s/DEVICE", "MEMORY GB", "ACTIVATIONS GB", "COMPUTING", "COMM", "BUBBLE"}};
  std::vector<Prediction> shown;
  for (const Advised& one : plan.best) shown.push_back(one.prediction);
  for (const Prediction& one : plan.front) {
    if (place_among_best(plan, one.layout) == 0 && shown.size() < most_rows) shown.push_back(one);
  }
  std::ranges::stable_sort(shown, {}, [](const Prediction& one) { return one.time.step_s(); });
  for (const Prediction& one : shown) rows.push_back(row_of(plan, one));
  return rows;
}

const std::vector<bool>& layout_columns_right() {
  static const std::vector<bool> right = {true, false, true, true, true, true, true, true, true};
  return right;
}

std::string plan_heading(const LayoutPlan& plan) {
  const PlanRequest& asked = plan.asked;
  std::string text = "PLAN, not measured: gpt " + asked.model + " on " + std::to_string(asked.devices) +
                     (asked.gpus ? " GPUs" : " CPU devices") + " · " + name_of(asked.dtype) + " · " +
                     std::to_string(asked.batch) + " samples of " + std::to_string(asked.shape.seq) + " tokens a step";
  if (asked.memory_bytes > 0) text += " · " + gigabytes(asked.memory_bytes) + " GB a device";
  return text;
}

std::vector<std::string> plan_remarks(const LayoutPlan& plan) {
  const Speed& speed = plan.asked.machine.speed;
  std::string rates = "speed of a device fitted to " + speed.fitted_to + ": ";
  rates += text_of_number(speed.rates.front().flop_per_s * 1e-12, "%.4g");
  if (speed.rates.size() > 1) rates += " to " + text_of_number(speed.rates.back().flop_per_s * 1e-12, "%.4g");
  rates += " TFLOP/s in products";
  if (speed.bytes_per_s > 0) rates += ", memory " + text_of_number(speed.bytes_per_s * 1e-9, "%.4g") + " GB/s";
  std::vector<std::string> all = {rates};
  if (speed.bytes_per_s == 0 && speed.update_s == 0)
    all.push_back("the optimizer and memory-bound operations take 0 s: only a run gives their times");
  if (plan.asked.devices > 1)
    all.push_back("links as given, " +
                  (plan.asked.machine.overlap > 0 || plan.asked.machine.overlap_measured
                       ? text_of_number(100 * plan.asked.machine.overlap, "%.0f %%") +
                             " of what can overlap is hidden, as " +
                             (plan.asked.machine.overlap_measured ? "measured in the run" : "assumed")
                       : std::string("nothing is hidden, because ranks and their copies share the cores")));
  all.push_back(std::to_string(plan.examined) + " layouts examined" +
                (plan.asked.memory_bytes > 0 ? ", " + std::to_string(plan.too_large) + " exceed --memory" : "") +
                "; tp stays within a host");
  if (const std::string shown = shown_text(plan); !shown.empty()) all.push_back(shown);
  return all;
}

Json to_json(const LayoutPlan& plan) {
  const PlanRequest& asked = plan.asked;
  PlanDocument document{.model = asked.model,
                        .dtype = asked.dtype,
                        .device = asked.gpus ? Device::cuda : Device::cpu,
                        .devices = asked.devices,
                        .batch = asked.batch,
                        .speed = speed_row(asked.machine.speed),
                        .overlap = asked.machine.overlap,
                        .examined = static_cast<int64_t>(plan.examined),
                        .too_large = static_cast<int64_t>(plan.too_large)};
  if (asked.memory_bytes > 0) document.memory_bytes = asked.memory_bytes;
  if (asked.devices > 1) document.network = asked.machine.network;
  for (const Advised& one : plan.best)
    document.best.push_back({prediction_row(plan, one.prediction, true), one.reasons});
  for (const Prediction& one : plan.front) document.front.push_back(prediction_row(plan, one, true));
  for (const Prediction& one : plan.fitting) document.layouts.push_back(prediction_row(plan, one, true));
  for (const Prediction& one : plan.unfitting) document.layouts.push_back(prediction_row(plan, one, false));
  return write_document(document);
}

Json plan_schema() { return document_schema<PlanDocument>(); }

}  // namespace dpbench::forecast
