// Registers the strategies that the class Layout implements: "layout" for any mesh, and one for each kind of
// parallelism: "pp" (pipeline), "tp" (tensor), "cp" (context), "ep" (expert), "fsdp" (ZeRO stage 3) and "zero2" (ZeRO
// stage 2).
#include <algorithm>

#include "strategies/layout/layout.h"
#include "strategies/layout/refusals.h"
#include "strategies/layout/traffic.h"
#include "workloads/base/error.h"

namespace dpbench::layout {
namespace {

using Parameters = std::vector<ParamInfo>;
// A function that makes a strategy's Options from its parameters. dtype: the dtype of the computation; nullopt if it is
// not known yet.
using OptionsOf = std::function<Options(const Params& params, std::optional<at::ScalarType> dtype)>;

// Returns the properties that all strategies implemented by the class Layout have in common.
StrategyInfo info_of(const std::string& name, const std::string& summary, const std::vector<std::string>& axes,
                     Parameters parameters, const OptionsOf& options_of) {
  return {.name = name,
          .summary = summary,
          .parallelism = Parallelism::ranks,
          .gradient = Gradient::mean_of_means,
          .buffers = Buffers::rank0,
          .axes = axes,
          .params = std::move(parameters),
          .make = [options_of](const Setup& setup) -> std::unique_ptr<Strategy> {
            return std::make_unique<Layout>(setup, options_of(setup.params, setup.dtype));
          },
          .traffic =
              [options_of](const TrafficQuery& query) { return traffic(options_of(query.params, query.dtype), query); },
          .collective_evaluation = true,
          .promise = [options_of](StrategyInfo&, const Params& params) { options_of(params, std::nullopt); },
          .require_suitable =
              [options_of](const Model& model, const MeshShape& mesh, const Params& params) {
                // Every option takes effect in bfloat16, so no case is refused that its own dtype would allow.
                refuse_unsuitable(model, Mesh(mesh), effective_on(mesh, options_of(params, at::kBFloat16)));
              }};
}

StrategyInfo pipeline_info() {
  StrategyInfo info = info_of(
      "pp", "pipeline: each rank has some of the model's blocks, micro-batches travel between them", {"pp", "dp"},
      pipeline::parameters(),
      [](const Params& params, auto) { return Options{.name = "pp", .pipeline = pipeline::options_of(params)}; });
  info.settings = {.revealing = {{"poison", "on"}}};
  info.variants = {{"gpipe", {{"schedule", "gpipe"}, {"poison", "on"}}},
                   {"interleaved", {{"schedule", "interleaved"}}},
                   {"zb_h1", {{"schedule", "zb-h1"}}},
                   {"zb_h2", {{"schedule", "zb-h2"}}},
                   {"zbv", {{"schedule", "zbv"}}}};
  return info;
}

StrategyInfo tensor_info() {
  StrategyInfo info =
      info_of("tp", "tensor parallel: each rank has a part of every divided layer, activations are summed over ranks",
              {"tp", "dp"}, tensor::parameters(),
              [](const Params& params, auto) { return Options{.name = "tp", .tensor = tensor::options_of(params)}; });
  info.settings = {.revealing = {{"verify", "on"}}};
  info.variants = {{"chunks", {{"chunks", "2"}}}};
  return info;
}

StrategyInfo context_info() {
  StrategyInfo info =
      info_of("cp", "context parallel: each rank has some tokens of every sample, attention exchanges keys and values",
              {"cp", "dp"}, context::parameters(),
              [](const Params& params, auto) { return Options{.name = "cp", .context = context::options_of(params)}; });
  info.settings = {.revealing = {{"poison", "on"}}};
  info.variants = {{"ulysses", {{"kind", "ulysses"}}}, {"one_piece", {{"zigzag", "off"}}}};
  return info;
}

StrategyInfo expert_info() {
  return info_of("ep",
                 "expert parallel: each rank has some experts of every layer, tokens travel to the ranks of theirs",
                 {"ep", "dp"}, {}, [](const Params&, auto) { return Options{.name = "ep"}; });
}

StrategyInfo sharded_info(fsdp::Stage stage) {
  const bool all = stage == fsdp::Stage::fsdp;
  const std::string name = all ? "fsdp" : "zero2";
  StrategyInfo info =
      info_of(name,
              all ? "sharded parameters, gradients and optimizer state, gathered unit by unit (ZeRO stage 3)"
                  : "ddp with sharded gradients and optimizer state (ZeRO stage 2)",
              {"dp", "shard"}, parameters(stage), [=](const Params& params, std::optional<at::ScalarType> dtype) {
                return Options{.name = name, .sharded = fsdp::options_of(stage, params, dtype), .shards_over_dp = true};
              });
  info.settings = fsdp::settings(stage);
  info.live_parameters = [stage](const TrafficQuery& query) { return live_parameters(stage, query); };
  info.collective_evaluation = all;
  info.promise = [stage](StrategyInfo& promised, const Params& params) { promise(stage, promised, params); };
  info.variants = variants(stage);
  if (all) info.mesh_for = fsdp::mesh_for;
  return info;
}

// Returns the parameters of the strategy "layout". They are the parameters of all kinds of parallelism, without
// duplicates, with another default of `sync`, and with only "on" and "off" as values of `reshard`.
Parameters all_parameters() {
  Parameters all;
  for (const Parameters& some :
       {pipeline::parameters(), tensor::parameters(), context::parameters(), fsdp::parameters(fsdp::Stage::fsdp)})
    for (const ParamInfo& one : some)
      if (std::ranges::count(all, one.name, &ParamInfo::name) == 0) all.push_back(one);
  std::ranges::find(all, "sync", &ParamInfo::name)->fallback = "last";
  ParamInfo& reshard = *std::ranges::find(all, "reshard", &ParamInfo::name);
  reshard.values = "on|off";
  reshard.summary = "on: free a unit after its forward pass, and gather it again for its backward pass; off: keep it";
  return all;
}

Options layout_options(const Params& params, std::optional<at::ScalarType> dtype) {
  Options options{.name = "layout",
                  .pipeline = pipeline::options_of(params),
                  .tensor = tensor::options_of(params),
                  .context = context::options_of(params),
                  .sharded = fsdp::options_of(fsdp::Stage::fsdp, params, dtype)};
  if (options.sharded->reshard == fsdp::Reshard::parts)
    throw UsageError("layout.reshard=" + params.text("reshard") +
                     ": only the strategy fsdp keeps parts of units in groups of ranks. Use on or off");
  return options;
}

StrategyInfo layout_info() {
  StrategyInfo info = info_of(
      "layout",
      "any product of data (dp), sharded (shard), expert (ep), context (cp), pipeline (pp) and tensor (tp) parallelism",
      {"dp", "shard", "ep", "cp", "pp", "tp"}, all_parameters(), layout_options);
  info.settings = {.revealing = {{"poison", "on"}, {"verify", "on"}}};
  info.promise = [](StrategyInfo& promised, const Params& params) {
    layout_options(params, std::nullopt);
    promise(fsdp::Stage::fsdp, promised, params);
  };
  return info;
}

const RegisterStrategy pipeline_strategy{pipeline_info()};
const RegisterStrategy tensor_strategy{tensor_info()};
const RegisterStrategy context_strategy{context_info()};
const RegisterStrategy expert_strategy{expert_info()};
const RegisterStrategy fsdp_strategy{sharded_info(fsdp::Stage::fsdp)};
const RegisterStrategy zero2_strategy{sharded_info(fsdp::Stage::zero2)};
const RegisterStrategy layout_strategy{layout_info()};

}  // namespace
}  // namespace dpbench::layout
