#include <algorithm>

#include "harness/forecast/output.h"
#include "harness/forecast/plan/layout_plan.h"
#include "harness/forecast/plan/words.h"

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

Json layout_json(const Layout& layout, int threads) {
  Json json = {
      {"text", text_of(layout)},      {"strategy", layout.strategy},
      {"mesh", text_of(layout.mesh)}, {"micro_batches", layout.micro_batches},
      {"rows", layout.rows},          {"recompute", layout.recompute},
      {"sequence", layout.sequence},  {"schedule", layout.schedule ? Json(layout.schedule->name) : Json(nullptr)},
      {"stages", layout.stages},      {"flags", flags_of(layout, threads)}};
  if (layout.sharding == Sharding::parameters) json["reshard"] = layout.reshard;
  return json;
}

Json prediction_json(const LayoutPlan& plan, const Prediction& one, bool fits) {
  const Time& time = one.time;
  const Memory& memory = one.memory;
  return {{"projected", true},
          {"layout", layout_json(one.layout, plan.asked.gpus ? 0 : plan.asked.machine.threads)},
          {"fits", fits},
          {"step_s", time.step_s()},
          {"tokens_per_s", tokens_per_s(plan, one)},
          {"time_s",
           {{"computing", time.computing_s},
            {"optimizer", time.optimizer_s},
            {"tensor", time.tensor_s},
            {"context", time.context_s},
            {"data", time.data_s},
            {"bubble", time.bubble_s}}},
          {"memory_bytes",
           {{"total", memory.total()},
            {"parameters", memory.parameters},
            {"gradients", memory.gradients},
            {"state", memory.state},
            {"activations", memory.activations},
            {"buffers", memory.buffers}}}};
}

Json predictions_json(const LayoutPlan& plan, const std::vector<Prediction>& all, bool fit) {
  Json list = Json::array();
  for (const Prediction& one : all) list.push_back(prediction_json(plan, one, fit));
  return list;
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
                     std::to_string(asked.batch) + " rows of " + std::to_string(asked.shape.seq) + " tokens a step";
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
  if (plan.asked.devices > 1)
    all.push_back("links as given, " +
                  (plan.asked.machine.overlap > 0
                       ? text_of_number(100 * plan.asked.machine.overlap, "%.0f %%") +
                             " of what can overlap is hidden, as " +
                             (plan.asked.machine.overlap_measured ? "measured in the run" : "assumed")
                       : std::string("nothing is hidden, because ranks and their copies share the cores")));
  all.push_back(std::to_string(plan.examined) + " layouts examined" +
                (plan.asked.memory_bytes > 0 ? ", " + std::to_string(plan.too_large) + " exceed --memory" : "") +
                "; tp stays within a host");
  return all;
}

Json to_json(const LayoutPlan& plan) {
  const PlanRequest& asked = plan.asked;
  const Speed& speed = asked.machine.speed;
  Json json = {{"schema", "dpbench.plan"},
               {"schema_version", {{"major", 1}, {"minor", 0}}},
               {"projected", true},
               {"model", asked.model},
               {"dtype", name_of(asked.dtype)},
               {"device", asked.gpus ? "cuda" : "cpu"},
               {"devices", asked.devices},
               {"batch", asked.batch},
               {"memory_bytes", asked.memory_bytes > 0 ? Json(asked.memory_bytes) : Json(nullptr)},
               {"speed",
                {{"fitted_to", speed.fitted_to},
                 {"rates", Json::array()},
                 {"bytes_per_s", speed.bytes_per_s > 0 ? Json(speed.bytes_per_s) : Json(nullptr)},
                 {"update_s", speed.update_s}}},
               {"overlap", asked.machine.overlap},
               {"network", nullptr},
               {"examined", plan.examined},
               {"too_large", plan.too_large}};
  if (asked.devices > 1) json["network"] = to_json(asked.machine.network);
  for (const SizeRate& rate : speed.rates)
    json["speed"]["rates"].push_back({{"layer_flop", rate.layer_flop}, {"flop_per_s", rate.flop_per_s}});
  json["best"] = Json::array();
  for (const Advised& one : plan.best) {
    Json best = prediction_json(plan, one.prediction, true);
    best["reasons"] = one.reasons;
    json["best"].push_back(best);
  }
  json["front"] = predictions_json(plan, plan.front, true);
  json["layouts"] = predictions_json(plan, plan.fitting, true);
  for (Json& one : predictions_json(plan, plan.unfitting, false)) json["layouts"].push_back(one);
  return json;
}

}  // namespace dpbench::forecast
