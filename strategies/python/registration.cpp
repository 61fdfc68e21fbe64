#include "strategies/python/registration.h"

#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "strategies/python/python_strategy.h"
#include "strategies/python/python_workload.h"
#include "workloads/base/error.h"
#include "workloads/base/registry.h"

namespace dpbench::python {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& text, const std::string& allowed) {
  throw UsageError(field + "='" + text + "': must be " + allowed);
}

bool switch_of(const std::string& field, const std::string& text) {
  if (text != "on" && text != "off") refuse(field, text, "True or False");
  return text == "on";
}

template <class Number>
Number number_of(const std::string& field, const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) refuse(field, text, "a number");
  return number;
}

template <class Enum>
Enum enum_of(const std::string& field, const std::string& text) {
  if (const auto value = parse_name<Enum>(text)) return *value;
  refuse(field, text, "one of " + all_names<Enum>());
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    items.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return items;
}

ParamValues values_of(const std::string& field, const std::string& text) {
  ParamValues values;
  for (const std::string& item : list_of(text)) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) refuse(field, text, "NAME=VALUE");
    values[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return values;
}

at::ScalarType dtype_of(const std::string& field, const std::string& text) {
  static const std::map<std::string, at::ScalarType> types = {
      {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}, {"float64", at::kDouble}};
  const auto found = types.find(text);
  if (found == types.end()) refuse(field, text, "torch.float16, torch.bfloat16, torch.float32 or torch.float64");
  return found->second;
}

void set_field(StrategyInfo& info, const std::string& field, const std::string& text) {
  using Set = void (*)(StrategyInfo&, const std::string&, const std::string&);
  static const std::map<std::string, Set> setters = {
      {"name", [](auto& i, auto&, auto& t) { i.name = t; }},
      {"summary", [](auto& i, auto&, auto& t) { i.summary = t; }},
      {"parallelism", [](auto& i, auto& f, auto& t) { i.parallelism = enum_of<Parallelism>(f, t); }},
      {"gradient", [](auto& i, auto& f, auto& t) { i.gradient = enum_of<Gradient>(f, t); }},
      {"buffers", [](auto& i, auto& f, auto& t) { i.buffers = enum_of<Buffers>(f, t); }},
      {"cpu", [](auto& i, auto& f, auto& t) { i.cpu = switch_of(f, t); }},
      {"cuda", [](auto& i, auto& f, auto& t) { i.cuda = switch_of(f, t); }},
      {"axes", [](auto& i, auto&, auto& t) { i.axes = list_of(t); }},
      {"reduced_in", [](auto& i, auto& f, auto& t) { i.reduced_in = dtype_of(f, t); }},
      {"used_in", [](auto& i, auto& f, auto& t) { i.used_in = dtype_of(f, t); }},
      {"repeatable", [](auto& i, auto& f, auto& t) { i.repeatable = switch_of(f, t); }},
      {"skips_non_finite", [](auto& i, auto& f, auto& t) { i.skips_non_finite = switch_of(f, t); }},
      {"allows_unused", [](auto& i, auto& f, auto& t) { i.allows_unused = switch_of(f, t); }},
      {"allows_no_rows", [](auto& i, auto& f, auto& t) { i.allows_no_rows = switch_of(f, t); }},
      {"collective_evaluation", [](auto& i, auto& f, auto& t) { i.collective_evaluation = switch_of(f, t); }},
      {"reduces_each_micro_batch", [](auto& i, auto& f, auto& t) { i.reduces_each_micro_batch = switch_of(f, t); }},
      {"same_graph", [](auto& i, auto& f, auto& t) { i.same_graph = switch_of(f, t); }},
      {"own", [](auto& i, auto&, auto& t) { i.own = list_of(t); }},
      {"average_every", [](auto& i, auto& f, auto& t) { i.average_every = number_of<int64_t>(f, t); }},
      {"settings.revealing", [](auto& i, auto& f, auto& t) { i.settings.revealing = values_of(f, t); }},
      {"settings.allow_unused", [](auto& i, auto& f, auto& t) { i.settings.allow_unused = values_of(f, t); }},
      {"settings.allow_no_rows", [](auto& i, auto& f, auto& t) { i.settings.allow_no_rows = values_of(f, t); }},
      {"settings.short_interval", [](auto& i, auto& f, auto& t) { i.settings.short_interval = values_of(f, t); }}};
  const auto found = setters.find(field);
  if (found == setters.end()) throw UsageError("there is no promise '" + field + "'");
  found->second(info, field, text);
}

// Asks Python for the strategy's fields that depend on parameter values, and sets them.
void promise(int64_t id, const std::string& owner, StrategyInfo& info, const Params& params) {
  Frame frame;
  for (const ParamInfo& param : info.params) frame.texts.push_back(param.name + "=" + params.text(param.name));
  const Frame answered = call("promise", id, 0, std::move(frame));
  check(answered.texts.size() % 2 == 0, owner + ": promise() must return fields and values");
  for (size_t i = 0; i < answered.texts.size(); i += 2) set_field(info, answered.texts[i], answered.texts[i + 1]);
}

void set_field(OptimizerSpec& spec, const std::string& field, const std::string& text) {
  static const std::map<std::string, double OptimizerSpec::*> numbers = {
      {"learning_rate", &OptimizerSpec::learning_rate},
      {"beta1", &OptimizerSpec::beta1},
      {"beta2", &OptimizerSpec::beta2},
      {"epsilon", &OptimizerSpec::epsilon},
      {"weight_decay", &OptimizerSpec::weight_decay},
      {"momentum", &OptimizerSpec::momentum},
      {"final_fraction", &OptimizerSpec::final_fraction}};
  static const std::map<std::string, int64_t OptimizerSpec::*> steps = {{"warmup_steps", &OptimizerSpec::warmup_steps},
                                                                        {"decay_steps", &OptimizerSpec::decay_steps}};
  if (field == "optimizer") {
    if (text != "sgd" && text != "adam") refuse(field, text, "'sgd' or 'adam' (with weight_decay: AdamW)");
    spec.kind = text == "adam" ? OptimizerSpec::Kind::adam : OptimizerSpec::Kind::sgd;
  } else if (const auto number = numbers.find(field); number != numbers.end()) {
    spec.*number->second = number_of<double>(field, text);
  } else if (const auto count = steps.find(field); count != steps.end()) {
    spec.*count->second = number_of<int64_t>(field, text);
  } else {
    throw UsageError("a workload has no field '" + field + "'");
  }
}

}  // namespace

void register_strategy(int64_t id, const Fields& fields, bool promises, const std::vector<std::string>& params) {
  StrategyInfo info;
  info.python = true;
  for (const auto& field : fields) set_field(info, field.key(), field.value());
  check(params.size() % 4 == 0, "four texts describe a parameter");
  for (size_t i = 0; i < params.size(); i += 4)
    info.params.push_back({params[i], params[i + 1], params[i + 2], params[i + 3]});
  const auto bare = std::make_shared<StrategyInfo>(info);
  info.make = [bare](const Setup& setup) -> std::unique_ptr<Strategy> {
    return std::make_unique<PythonStrategy>(setup, *bare);
  };
  if (promises)
    info.promise = [id, name = info.name](StrategyInfo& adjusted, const Params& given) {
      promise(id, name, adjusted, given);
    };
  const RegisterStrategy registered{info};
  require_valid_registrations("strategy '" + info.name + "'");
}

void register_workload(int64_t id, const Fields& fields) {
  WorkloadInfo info;
  info.python = true;
  PythonWorkload::Numbers numbers{.id = id};
  OptimizerSpec spec;
  for (const auto& entry : fields) {
    const std::string &field = entry.key(), &text = entry.value();
    if (field == "name")
      info.name = text;
    else if (field == "summary")
      info.summary = text;
    else if (field == "scaling")
      info.scaling = enum_of<Scaling>(field, text);
    else if (field == "batch")
      info.batch = number_of<int64_t>(field, text);
    else if (field == "samples")
      numbers.samples = number_of<int64_t>(field, text);
    else if (field == "test_samples")
      numbers.test_samples = number_of<int64_t>(field, text);
    else
      set_field(spec, field, text);
  }
  if (numbers.samples < 1) refuse("samples", std::to_string(numbers.samples), "1 or more");
  info.make = [numbers, spec](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
    if (checked_scale(options) != 1) throw UsageError("--scale: a model in Python has one size");
    PythonWorkload::Numbers all = numbers;
    all.smooth = options.smooth;
    return std::make_unique<PythonWorkload>(all, spec);
  };
  const RegisterWorkload registered{info};
  require_valid_registrations("workload '" + info.name + "'");
}

}  // namespace dpbench::python
