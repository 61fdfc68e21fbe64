#include "strategies/python/registration.h"

#include <map>
#include <memory>
#include <optional>

#include "strategies/python/python_strategy.h"
#include "strategies/python/python_workload.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"
#include "workloads/base/registry.h"

namespace dpbench::python {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& text, const std::string& allowed) {
  throw UsageError(field + "='" + text + "': must be " + allowed);
}

// Converts the text of a registration's field to a value. words: the value of each allowed text. field: the field's
// name. allowed: the allowed texts as the error message lists them. Throws UsageError for any other text.
template <class Value>
Value meaning(const std::map<std::string, Value>& words, const std::string& allowed, const std::string& field,
              const std::string& text) {
  const auto found = words.find(text);
  if (found == words.end()) refuse(field, text, allowed);
  return found->second;
}

bool switch_of(const std::string& field, const std::string& text) {
  return meaning<bool>({{"on", true}, {"off", false}}, "True or False", field, text);
}

template <class Number>
Number number_of(const std::string& field, const std::string& text) {
  if (const auto number = parse_number<Number>(text)) return *number;
  refuse(field, text, "a number");
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
  return meaning<at::ScalarType>(
      {{"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}, {"float64", at::kDouble}},
      "torch.float16, torch.bfloat16, torch.float32 or torch.float64", field, text);
}

OptimizerSpec::Kind kind_of(const std::string& field, const std::string& text) {
  using Kind = OptimizerSpec::Kind;
  return meaning<Kind>({{"sgd", Kind::sgd}, {"adam", Kind::adam}}, "'sgd' or 'adam' (with weight_decay: AdamW)", field,
                       text);
}

// The fields of a strategy's or workload's registration that Python may set, each with the function that sets it.
template <class Target>
using Setters = std::map<std::string, void (*)(Target&, const std::string& field, const std::string& text)>;

template <class Target>
void set_field(const Setters<Target>& setters, const std::string& unknown, Target& target, const std::string& field,
               const std::string& text) {
  const auto found = setters.find(field);
  if (found == setters.end()) throw UsageError(unknown + " '" + field + "'");
  found->second(target, field, text);
}

void set_field(StrategyInfo& info, const std::string& field, const std::string& text) {
  static const Setters<StrategyInfo> setters = {
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
      {"allows_no_samples", [](auto& i, auto& f, auto& t) { i.allows_no_samples = switch_of(f, t); }},
      {"collective_evaluation", [](auto& i, auto& f, auto& t) { i.collective_evaluation = switch_of(f, t); }},
      {"reduces_each_micro_batch", [](auto& i, auto& f, auto& t) { i.reduces_each_micro_batch = switch_of(f, t); }},
      {"same_graph", [](auto& i, auto& f, auto& t) { i.same_graph = switch_of(f, t); }},
      {"own", [](auto& i, auto&, auto& t) { i.own = list_of(t); }},
      {"average_every", [](auto& i, auto& f, auto& t) { i.average_every = number_of<int64_t>(f, t); }},
      {"settings.revealing", [](auto& i, auto& f, auto& t) { i.settings.revealing = values_of(f, t); }},
      {"settings.allow_unused", [](auto& i, auto& f, auto& t) { i.settings.allow_unused = values_of(f, t); }},
      {"settings.allow_no_samples", [](auto& i, auto& f, auto& t) { i.settings.allow_no_samples = values_of(f, t); }},
      {"settings.short_interval", [](auto& i, auto& f, auto& t) { i.settings.short_interval = values_of(f, t); }}};
  set_field(setters, "there is no promise", info, field, text);
}

// Some fields of StrategyInfo depend on the values of the strategy's parameters. Asks Python for these fields and sets
// them.
void promise(int64_t id, const std::string& owner, StrategyInfo& info, const Params& params) {
  Frame frame;
  for (const ParamInfo& param : info.params) frame.texts.push_back(param.name + "=" + params.text(param.name));
  const Frame answered = call("promise", id, 0, std::move(frame));
  check(answered.texts.size() % 2 == 0, owner + ": promise() must return fields and values");
  for (size_t i = 0; i < answered.texts.size(); i += 2) set_field(info, answered.texts[i], answered.texts[i + 1]);
}

struct WorkloadFields {
  WorkloadInfo info = {};
  PythonWorkload::Numbers numbers = {};
  OptimizerSpec optimizer = {};
  bool own_optimizer = false;
};

void set_field(WorkloadFields& workload, const std::string& field, const std::string& text) {
  static const Setters<WorkloadFields> setters = {
      {"name", [](auto& w, auto&, auto& t) { w.info.name = t; }},
      {"summary", [](auto& w, auto&, auto& t) { w.info.summary = t; }},
      {"scaling", [](auto& w, auto& f, auto& t) { w.info.scaling = enum_of<Scaling>(f, t); }},
      {"batch", [](auto& w, auto& f, auto& t) { w.info.batch = number_of<int64_t>(f, t); }},
      {"samples", [](auto& w, auto& f, auto& t) { w.numbers.samples = number_of<int64_t>(f, t); }},
      {"test_samples", [](auto& w, auto& f, auto& t) { w.numbers.test_samples = number_of<int64_t>(f, t); }},
      {"optimizer", [](auto& w, auto& f, auto& t) { w.optimizer.kind = kind_of(f, t); }},
      {"own_loss_terms", [](auto& w, auto& f, auto& t) { w.numbers.own_loss_terms = switch_of(f, t); }},
      {"own_optimizer", [](auto& w, auto& f, auto& t) { w.own_optimizer = switch_of(f, t); }},
      {"learning_rate", [](auto& w, auto& f, auto& t) { w.optimizer.learning_rate = number_of<double>(f, t); }},
      {"beta1", [](auto& w, auto& f, auto& t) { w.optimizer.beta1 = number_of<double>(f, t); }},
      {"beta2", [](auto& w, auto& f, auto& t) { w.optimizer.beta2 = number_of<double>(f, t); }},
      {"epsilon", [](auto& w, auto& f, auto& t) { w.optimizer.epsilon = number_of<double>(f, t); }},
      {"weight_decay", [](auto& w, auto& f, auto& t) { w.optimizer.weight_decay = number_of<double>(f, t); }},
      {"momentum", [](auto& w, auto& f, auto& t) { w.optimizer.momentum = number_of<double>(f, t); }},
      {"final_fraction", [](auto& w, auto& f, auto& t) { w.optimizer.final_fraction = number_of<double>(f, t); }},
      {"warmup_steps", [](auto& w, auto& f, auto& t) { w.optimizer.warmup_steps = number_of<int64_t>(f, t); }},
      {"decay_steps", [](auto& w, auto& f, auto& t) { w.optimizer.decay_steps = number_of<int64_t>(f, t); }}};
  set_field(setters, "a workload has no field", workload, field, text);
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
  WorkloadFields workload;
  for (const auto& field : fields) set_field(workload, field.key(), field.value());
  auto& [info, numbers, optimizer, own_optimizer] = workload;
  info.python = true;
  numbers.id = id;
  if (own_optimizer) optimizer.own = std::make_shared<PythonOptimizer>(id);
  if (numbers.samples < 1) refuse("samples", std::to_string(numbers.samples), "1 or more");
  info.make = [numbers = numbers, optimizer = optimizer](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
    if (checked_scale(options) != 1) throw UsageError("--scale: a model in Python has one size");
    PythonWorkload::Numbers all = numbers;
    all.smooth = options.smooth;
    return std::make_unique<PythonWorkload>(all, optimizer);
  };
  const RegisterWorkload registered{info};
  require_valid_registrations("workload '" + info.name + "'");
}

}  // namespace dpbench::python
