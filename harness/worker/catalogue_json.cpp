#include "harness/worker/catalogue_json.h"

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/report/record/checks.h"
#include "harness/report/record/report.h"
#include "harness/worker/rank/cuda.h"
#include "strategies/api/backend.h"
#include "strategies/api/strategy.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// The report's text for each kind of gradient, in the order of the enumerators of Gradient.
constexpr auto gradient_meanings = std::to_array<std::string_view>(
    {batch_mean, batch_mean, batch_mean, "sum over ranks", "mean of active ranks", "local steps"});
static_assert(gradient_meanings.size() == enum_names<Gradient>.size());

std::string values_of(const ParamInfo& param) {
  const bool is_switch = param.fallback == "on" || param.fallback == "off";
  return param.values.empty() && is_switch ? name_of(ParamKind::flag) : param.values;
}

Json text_of(const ParamValues& values) {
  Json text = Json::array();
  for (const auto& [name, value] : values) text.push_back(name + "=" + value);
  return text;
}

// Returns the properties that a strategy declares, without its gradient, buffers and devices.
Json declarations_of(const StrategyInfo& info) {
  const auto text = [](std::optional<at::ScalarType> type) { return type ? Json(at::toString(*type)) : Json(nullptr); };
  const Settings& settings = info.settings;
  Json all = Json::array();
  const auto add = [&](const char* name, Json value, const char* summary) {
    all.push_back({{"name", name}, {"value", std::move(value)}, {"summary", summary}});
  };
  add("axes", info.axes, "axes of a mesh that it uses");
  add("repeatable", info.repeatable, "two runs of the same steps give the same bits");
  add("reduced_in", text(info.reduced_in), "type in which gradients are communicated, if narrower than their own");
  add("used_in", text(info.used_in), "type in which matrices are used with bf16, if narrower than their own");
  add("skips_non_finite", info.skips_non_finite, "a non-finite gradient changes no parameter and no state");
  add("allows_unused", info.allows_unused, "ranks may use different parameters in a step");
  add("allows_no_samples", info.allows_no_samples, "a rank may run out of samples before the others");
  add("reduces_each_micro_batch", info.reduces_each_micro_batch, "gradients are reduced in every micro-batch");
  add("same_graph", info.same_graph, "every step must use the same parameters in the same order");
  add("recorded", info.recorded, "steps are recorded and replayed");
  add("own", info.own, "parameters that each rank keeps to itself");
  add("collective_evaluation", info.collective_evaluation, "evaluation calls collectives, equally often on all ranks");
  add("live_parameters", static_cast<bool>(info.live_parameters),
      "a formula limits the memory of parameters during a step");
  add("traffic", static_cast<bool>(info.traffic), "a formula gives the bytes of the collectives of a step");
  add("average_every", info.average_every, "steps between two averages of the parameters; 0: none");
  add("loads_samples", info.loads_samples, "loads the samples itself, from their ids");
  add("onednn", info.onednn, "large float32 products use oneDNN");
  add("settings.revealing", text_of(settings.revealing), "parameter values with which mistakes show");
  add("settings.allow_unused", text_of(settings.allow_unused), "parameter values for allows_unused");
  add("settings.allow_no_samples", text_of(settings.allow_no_samples), "parameter values for allows_no_samples");
  add("settings.short_interval", text_of(settings.short_interval), "parameter values for a small average_every");
  add("settings.unrecorded", text_of(settings.unrecorded), "parameter values without recording");
  return all;
}

Json describe(const StrategyInfo& info) {
  Json params = Json::array();
  for (const ParamInfo& param : info.params)
    params.push_back(
        {{"name", param.name}, {"default", param.fallback}, {"values", values_of(param)}, {"summary", param.summary}});
  return {{"name", info.name},
          {"summary", info.summary},
          {"parallelism", name_of(info.parallelism)},
          {"gradient", name_of(info.gradient)},
          {"buffers", name_of(info.buffers)},
          {"cpu", info.cpu},
          {"cuda", info.cuda},
          {"unproven_on_gpu", info.unproven_on_gpu},
          {"axes", info.axes},
          {"python", info.python},
          {"declares", declarations_of(info)},
          {"params", params}};
}

// Returns the number of samples of a workload, or null if it cannot be constructed from its name alone, e.g. a plug-in
// workload that needs --data.
Json samples_of(const WorkloadInfo& info) {
  try {
    return info.make({})->samples();
  } catch (const std::exception&) {
    return nullptr;
  }
}

Json describe(const WorkloadInfo& info) {
  return {{"name", info.name},
          {"summary", info.summary},
          {"scaling", name_of(info.scaling)},
          {"batch", info.batch},
          {"samples", samples_of(info)},
          {"python", info.python},
          {"probe", info.probe},
          {"thorough", info.thorough},
          {"digits", info.digits},
          {"models", info.models.names},
          {"model_sizes", info.models.sizes},
          {"check_model", info.models.for_checks},
          {"drawn_sizes", info.models.drawn},
          {"experts", info.experts}};
}

Json describe(const BackendInfo& info) {
  return {{"name", info.name},
          {"summary", info.summary},
          {"cpu", info.cpu},
          {"cuda", info.cuda},
          {"unproven_on_gpu", info.unproven_on_gpu},
          {"threads", info.threads},
          {"shares_device", info.shares_device},
          {"cpu_preference", info.cpu_preference},
          {"cuda_preference", info.cuda_preference},
          {"shares_memory", info.shares_memory}};
}

Json describe_checks() {
  Json all = Json::array();
  for (const CheckMeaning& check : check_table::all) all.push_back({{"name", check.name}, {"summary", check.summary}});
  return all;
}

template <class Info>
Json describe_all(const Registry<Info>& registry) {
  Json all = Json::array();
  for (const Info& info : registry.all()) all.push_back(describe(info));
  return all;
}

}  // namespace

std::string meaning_of(Gradient gradient) { return std::string(gradient_meanings[static_cast<size_t>(gradient)]); }

Json catalogue(bool with_cuda, size_t built_in) {
  Json workloads = describe_all(workload_registry());
  for (size_t i = 0; i < workloads.size(); ++i)
    workloads[i]["plugin"] = i >= built_in || workload_registry().all()[i].python;
  Json not_built = Json::array();
  if (const std::string reason = with_cuda ? load_cuda() : "not loaded: no GPU here"; !reason.empty())
    not_built.push_back({{"kind", "backend"}, {"name", "nccl"}, {"reason", reason}});
  return {{"torch", DPBENCH_TEXT(TORCH_VERSION_MAJOR) "." DPBENCH_TEXT(TORCH_VERSION_MINOR) "." DPBENCH_TEXT(
                        TORCH_VERSION_PATCH)},
          {"cuda", DPBENCH_CUDA_BUILT},
          {"nccl", DPBENCH_NCCL_BUILT},
          {"strategies", describe_all(strategy_registry())},
          {"workloads", workloads},
          {"backends", describe_all(backend_registry())},
          {"checks", describe_checks()},
          {"not_built", not_built}};
}

namespace {

// Makes the models of choices, one at a time. Consecutive choices of one model share it.
class ChosenModel {
 public:
  const Model& of(const Json& choice) {
    const Json now = {choice.at("workload"), choice.at("model"), choice.at("scale"), choice.at("data_dir")};
    if (model_ && now == made_from_) return *model_;
    model_.reset();
    made_from_ = now;
    workload_ =
        workload_registry()
            .at(choice.at("workload"))
            .make({.scale = choice.at("scale"), .model = choice.at("model"), .data_dir = choice.at("data_dir")});
    model_ = workload_->model(/*seed=*/1);
    return *model_;
  }

 private:
  Json made_from_;
  std::unique_ptr<Workload> workload_;
  std::shared_ptr<Model> model_;
};

void require_suitable(const Json& choice, const StrategyInfo& info, const Params& params, ChosenModel& model) {
  if (!info.require_suitable || !choice.contains("workload")) return;
  if (workload_registry().at(choice.at("workload")).probe) return;  // some strategies accept more on probes
  info.require_suitable(model.of(choice), effective_mesh(info, params, choice.at("mesh"), choice.at("world")), params);
}

}  // namespace

Json refusals(const std::vector<std::string>& choices) {
  Json reasons = Json::array();
  ChosenModel model;
  for (const std::string& text : choices) {
    const Json choice = parse_json(text, "the choice of parameter values");
    Json reason = nullptr;
    try {
      const StrategyInfo& info = strategy_registry().at(choice.at("strategy").get<std::string>());
      const Params params(info.params, choice.at("params").get<ParamValues>(), info.name);
      promised(info, params);
      require_suitable(choice, info, params, model);
    } catch (const UsageError& error) {
      reason = error.what();
    } catch (const std::exception&) {
      // The model cannot be made here, for example for lack of memory. The ranks will report it.
    }
    reasons.push_back(reason);
  }
  return reasons;
}

}  // namespace dpbench
