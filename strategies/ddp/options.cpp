#include "strategies/ddp/options.h"

#include <algorithm>
#include <sstream>

#include "strategies/api/parts/replica.h"
#include "strategies/api/trained_parameters.h"

namespace dpbench::ddp {
namespace {

constexpr double mebibyte = 1024 * 1024;

void refuse_together(bool both, const std::string& names, const std::string& why) {
  if (both) throw UsageError(names + " cannot be combined: " + why);
}

void read_bucket_caps(const Params& params, Options& options) {
  const double bucket = params.number("bucket_mb"), first = std::min(bucket, params.number("first_bucket_mb"));
  if (!(first > 0)) throw UsageError("ddp.bucket_mb and ddp.first_bucket_mb must be above 0");
  options.bucket_bytes = static_cast<int64_t>(bucket * mebibyte);
  options.first_bucket_bytes = static_cast<int64_t>(first * mebibyte);
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  if (list == "none") return names;
  std::istringstream words(list);
  for (std::string name; std::getline(words, name, '+');) names.push_back(name);
  return names;
}

// Throws UsageError for options that cannot be combined with ddp.graph. A step recorded as a CUDA graph must not depend
// on host state that changes, nor read results back from the device.
void refuse_unrecordable(const Options& options) {
  if (!options.graph) return;
  refuse_together(options.find_unused, "ddp.graph=on and ddp.find_unused=on",
                  "the host searches for unused parameters in every step");
  refuse_together(options.join, "ddp.graph=on and ddp.join=on",
                  "the host checks in every step which ranks have samples");
  refuse_together(options.global_mean, "ddp.graph=on and ddp.global_mean=on",
                  "the host counts the samples of all ranks in every step");
  refuse_together(options.step_in_backward, "ddp.graph=on and ddp.step_in_backward=on",
                  "buckets are stepped concurrently, on streams chosen by the reduction");
}

void refuse_contradictions(const Options& options, const Params& params) {
  if (params.text("clip") != "after")
    throw UsageError("ddp.clip=" + params.text("clip") +
                     " is not supported: --clip-norm limits the reduced gradient. Clipping each rank's gradient before "
                     "the reduction would change the declared gradient. Use ddp.clip=after.");
  refuse_together(options.join && options.static_graph, "ddp.join=on and ddp.static_graph=on",
                  "a rank without samples has no backward pass to learn the graph from");
  refuse_together(options.join && options.sync_batch_norm, "ddp.join=on and ddp.sync_batch_norm=on",
                  "a rank without samples does not take part in the statistics");
  refuse_together(options.skip_unused && !options.find_unused, "ddp.skip_unused=on and ddp.find_unused=off",
                  "skip_unused needs the search for unused parameters");
  refuse_together(options.skip_unused && options.join, "ddp.skip_unused=on and ddp.join=on",
                  "a rank without samples does not know which parameters the others use");
  refuse_together(options.step_in_backward && options.find_unused, "ddp.step_in_backward=on and ddp.find_unused=on",
                  "a bucket is stepped before its unused parameters are known");
  refuse_together(options.step_in_backward && options.join, "ddp.step_in_backward=on and ddp.join=on",
                  "a rank without samples has no backward pass to step in");
  const std::string ignored = "ddp.ignore=" + params.text("ignore");
  refuse_together(!options.ignored.empty() && options.join, ignored + " and ddp.join=on",
                  "a rank without samples has no gradient for an ignored parameter");
  refuse_together(!options.ignored.empty() && options.global_mean, ignored + " and ddp.global_mean=on",
                  "the loss is weighted for a mean over ranks, but ignored parameters are not reduced");
  refuse_together(options.divide_by_active && !options.join, "ddp.join_divisor=active and ddp.join=off",
                  "without join every rank must have samples");
  refuse_together(options.divide_by_active && options.global_mean, "ddp.join_divisor=active and ddp.global_mean=on",
                  "the mean over all samples already gives a rank without samples zero weight");
  refuse_unrecordable(options);
}

}  // namespace

Options options_of(const Params& params) {
  Options options;
  read_bucket_caps(params, options);
  options.broadcast_buffers = params.flag("broadcast_buffers");
  options.bucket_views = params.flag("gradient_as_bucket_view");
  options.find_unused = params.flag("find_unused");
  options.skip_unused = params.flag("skip_unused");
  options.static_graph = params.flag("static_graph");
  options.compression = chosen<std::optional<at::ScalarType>>(
      params, "hook", {{"none", std::nullopt}, {"fp16", at::kHalf}, {"bf16", at::kBFloat16}},
      " (the Reducer takes one hook)");
  options.global_mean = params.flag("global_mean");
  options.sync_batch_norm = params.flag("sync_batch_norm");
  options.join = params.flag("join");
  options.divide_by_active = chosen<bool>(params, "join_divisor", {{"initial", false}, {"active", true}});
  options.step_in_backward = params.flag("step_in_backward");
  options.ignored = names_in(params.text("ignore"));
  options.tf32 = params.flag("tf32");
  options.graph = params.flag("graph");
  options.onednn = params.flag("onednn");
  refuse_contradictions(options, params);
  return options;
}

void require_ignorable(const Model& model, const Params& params) {
  const std::vector<std::string> ignored = names_in(params.text("ignore"));
  if (ignored.empty()) return;
  const NamedTensors trained = trained_parameters(model);
  const std::string ignore = "ddp.ignore=" + params.text("ignore");
  std::string names;
  for (const auto& [name, tensor] : trained) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& name : ignored)
    if (!find(trained, name))
      throw UsageError(ignore + ": the model has no parameter " + name + " to train; it has: " + names);
  if (std::ranges::all_of(trained, [&](const auto& one) { return std::ranges::count(ignored, one.first) > 0; }))
    throw UsageError(ignore + " leaves no parameter to reduce");
}

std::vector<ParamInfo> parameters() {
  return {
      {"bucket_mb", "25", "maximum size of a bucket in MiB", "number above 0"},
      {"first_bucket_mb", "1", "maximum size of the first bucket in MiB, at most bucket_mb", "number above 0"},
      {"broadcast_buffers", "on", "broadcast rank 0's buffers before each forward pass"},
      {"gradient_as_bucket_view", "on", "gradients are views of their buckets, so they are not copied back"},
      {"find_unused", "off", "search the graph for unused parameters in every step"},
      {"skip_unused", "off",
       "with find_unused, skip buckets that no rank uses; all ranks must use the same parameters"},
      {"static_graph", "off", "every step has the graph of the first: learn unused and reused parameters once"},
      {"hook", "none", "compress gradients to fp16 or bf16 for the reduction, divided before they are summed",
       "none|fp16|bf16"},
      {"global_mean", "off", "mean over all ranks' samples, even if ranks have different numbers of samples"},
      {"sync_batch_norm", "off", "BatchNorm statistics over all ranks' samples"},
      {"join", "off", "a rank may run out of samples: it keeps reducing with the others, contributing zeros"},
      {"join_divisor", "initial", "with join, divide by the initial world or by the active ranks", "initial|active"},
      {"step_in_backward", "off", "step a bucket's parameters as soon as it is reduced, during the backward pass"},
      {"ignore", "none", "parameters local to each rank, neither broadcast nor reduced: NAME+NAME.."},
      {"clip", "after", "--clip-norm limits the reduced gradient; no other value is supported"},
      {"tf32", "off", "on: allow TF32 (10-bit mantissa) in float32 products on a GPU"},
      {"graph", "off", "on: record each step, including its NCCL reductions, as one CUDA graph and replay it"},
      onednn_param()};
}

Settings settings() {
  return {.revealing = {{"bucket_mb", "0.0005"}, {"first_bucket_mb", "0.0002"}},
          .allow_unused = {{"find_unused", "on"}},
          .allow_no_samples = {{"join", "on"}},
          .unrecorded = {{"graph", "off"}}};
}

std::vector<Variant> variants() {
  return {{"small_buckets", {{"bucket_mb", "0.0002"}, {"first_bucket_mb", "0.0001"}}},
          {"find_unused", {{"find_unused", "on"}}},
          {"skip_unused", {{"find_unused", "on"}, {"skip_unused", "on"}}},
          {"static_graph", {{"static_graph", "on"}}},
          {"step_in_backward", {{"step_in_backward", "on"}}},
          {"step_in_backward_static_graph",
           {{"step_in_backward", "on"}, {"static_graph", "on"}, {"gradient_as_bucket_view", "off"}}},
          {"own_gradients", {{"gradient_as_bucket_view", "off"}}},
          {"own_gradients_unused", {{"gradient_as_bucket_view", "off"}, {"find_unused", "on"}}},
          {"own_buffers", {{"broadcast_buffers", "off"}}},
          {"fp16", {{"hook", "fp16"}}},
          {"bf16", {{"hook", "bf16"}, {"gradient_as_bucket_view", "off"}}},
          {"global_mean", {{"global_mean", "on"}}},
          {"sync_batch_norm", {{"sync_batch_norm", "on"}}},
          onednn_variant(),
          {"sync_batch_norm_global_mean", {{"sync_batch_norm", "on"}, {"global_mean", "on"}}},
          {"join", {{"join", "on"}}},
          {"join_active", {{"join", "on"}, {"join_divisor", "active"}, {"find_unused", "on"}}},
          {"join_fp16", {{"join", "on"}, {"hook", "fp16"}}},
          {"join_global_mean", {{"join", "on"}, {"global_mean", "on"}, {"gradient_as_bucket_view", "off"}}},
          {"graph", {{"graph", "on"}}}};
}

void promise(StrategyInfo& info, const Params& params) {
  const Options options = options_of(params);
  if (options.global_mean) info.gradient = Gradient::global_mean;
  if (options.divide_by_active) info.gradient = Gradient::mean_of_active;
  if (!options.broadcast_buffers) info.buffers = Buffers::local;
  if (options.sync_batch_norm) info.buffers = Buffers::synchronised;
  info.reduced_in = options.compression;
  info.allows_unused = options.find_unused;
  info.allows_no_samples = options.join;
  info.same_graph = options.static_graph || options.skip_unused || options.graph;
  info.recorded = options.graph;
  if (options.graph) info.cpu = false;
  info.own = options.ignored;
  promise_onednn(info, params);
}

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query) {
  const Options options = options_of(query.params);
  // With ddp.find_unused, ddp.join, ddp.global_mean or ddp.sync_batch_norm, the ranks also exchange sets of used
  // parameters, sample counts or statistics. There is no traffic formula for that.
  if (options.find_unused || options.join || options.global_mean || options.sync_batch_norm) return std::nullopt;
  // In the first steps the Reducer also broadcasts the new assignment of parameters to buckets and, for a static graph,
  // all-reduces the set of used parameters. The traffic of these steps has no formula.
  if (query.taken < (options.static_graph ? 3 : 2)) return std::nullopt;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : trained_parameters(query.model))
    if (std::ranges::find(options.ignored, name) == options.ignored.end())
      bytes +=
          tensor.numel() * static_cast<int64_t>(c10::elementSize(options.compression.value_or(query.stored(tensor))));
  std::vector<Traffic> all = {{"dp", "allreduce", bytes}};
  if (options.broadcast_buffers) all.push_back({"dp", "broadcast", query.bytes_of(named_buffers(query.model))});
  return all;
}

}  // namespace dpbench::ddp
