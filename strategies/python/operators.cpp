// The functions of dpbench that Python can call: torch operators, under the names torch.ops.dpbench.NAME, and C
// functions. The operators pass tensors without a copy and with their autograd graphs.
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <torch/library.h>

#include "strategies/api/parts/replica.h"
#include "strategies/python/python_strategy.h"
#include "strategies/python/python_workload.h"
#include "strategies/python/registration.h"
#include "workloads/layers/dropout.h"

namespace dpbench::python {
namespace {

using Texts = std::vector<std::string>;
using Tensors = std::vector<at::Tensor>;

// The models that Python holds, by number.
std::mutex models_mutex;
std::map<int64_t, std::shared_ptr<Model>> models;
int64_t last_model = 0;

std::shared_ptr<Model> model_of(int64_t id) {
  const std::lock_guard lock(models_mutex);
  return models.at(id);
}

// Makes a model of the strategy's workload, on the strategy's device and in its dtype. Returns the model's number.
int64_t make_model(int64_t strategy) {
  const Setup& setup = strategy_of(strategy).setup();
  const Replica replica(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed);
  const std::lock_guard lock(models_mutex);
  models[++last_model] = replica.shared_model();
  return last_model;
}

void drop_model(int64_t id) {
  // Declared before the lock, so the model is destroyed after the unlock: its destructor may call Python.
  std::shared_ptr<Model> dropped;
  const std::lock_guard lock(models_mutex);
  const auto found = models.find(id);
  if (found == models.end()) return;
  dropped = std::move(found->second);
  models.erase(found);
}

// Returns the names and tensors of a model's parameters, then of its buffers.
std::tuple<Texts, Tensors, Texts, Tensors> tensors_of_model(int64_t id) {
  const auto model = model_of(id);
  Texts parameter_names, buffer_names;
  Tensors parameters, buffers;
  for (const auto& item : model->named_parameters()) {
    parameter_names.push_back(item.key());
    parameters.push_back(item.value());
  }
  for (const auto& item : model->named_buffers()) {
    buffer_names.push_back(item.key());
    buffers.push_back(item.value());
  }
  return {parameter_names, parameters, buffer_names, buffers};
}

at::Tensor forward_of_model(int64_t id, const at::Tensor& input, const at::Tensor& ids, int64_t step, int64_t seed) {
  return model_of(id)->forward(input, {static_cast<uint64_t>(seed), step, ids});
}

// Returns the number that Python gave to a model written in Python; 0 if the model is written in C++.
int64_t number_in_python(int64_t id) {
  const auto model = model_of(id);
  const auto* own = dynamic_cast<const PythonModel*>(model.get());
  return own ? own->id() : 0;
}

// Returns sizes that cannot be read from a model's parameters: tokens per sample, heads, key and value heads, layers.
std::vector<int64_t> sequence_plan_of(int64_t id) {
  const SequencePlan plan = model_of(id)->sequence_plan();
  return {plan.tokens, plan.heads, plan.kv_heads, plan.layers};
}

// Returns the rate of each of a model's dropout layers.
std::vector<double> dropout_rates_of(int64_t id) {
  std::vector<double> rates;
  for (const auto& module : model_of(id)->modules())
    if (const auto* dropout = dynamic_cast<const Dropout*>(module.get())) rates.push_back(dropout->rate());
  return rates;
}

at::Tensor loss_of_workload(int64_t strategy, const at::Tensor& output, const at::Tensor& target) {
  return strategy_of(strategy).setup().workload.loss(output, target);
}

// Returns the whole numbers, real numbers and texts of a strategy's Setup, in the order in which the Python class Setup
// reads them.
std::tuple<std::vector<int64_t>, std::vector<double>, Texts> setup_of(int64_t strategy) {
  const PythonStrategy& asked = strategy_of(strategy);
  const Setup& setup = asked.setup();
  const OptimizerSpec spec = setup.workload.optimizer();
  const auto* own = dynamic_cast<const PythonOptimizer*>(spec.own.get());
  const auto* hosted = dynamic_cast<const PythonWorkload*>(&setup.workload);
  const auto& group = setup.mesh.group();
  std::vector<int64_t> numbers = {group ? group->getRank() : 0,
                                  group ? group->getSize() : 1,
                                  static_cast<int64_t>(setup.init_seed),
                                  static_cast<int64_t>(setup.step_seed),
                                  static_cast<int64_t>(setup.dtype),
                                  setup.accumulate,
                                  setup.clip_norm.has_value(),
                                  setup.workload.sum_loss(),
                                  static_cast<int64_t>(setup.mesh.axes().size()),
                                  own ? own->workload() : 0,
                                  is_scheduled(spec),
                                  hosted ? hosted->id() : -1};
  const std::string kind = own ? "own" : spec.kind == OptimizerSpec::Kind::adam ? "adam" : "sgd";
  Texts texts = {asked.name(), kind, asked.group_name(""), setup.devices.at(0).str()};
  for (const Axis& axis : setup.mesh.axes()) {
    numbers.insert(numbers.end(), {axis.rank, axis.size});
    texts.insert(texts.end(), {axis.name, asked.group_name(axis.name)});
  }
  texts.insert(texts.end(), asked.param_values().begin(), asked.param_values().end());
  return {numbers,
          {setup.clip_norm.value_or(0), spec.learning_rate, spec.beta1, spec.beta2, spec.epsilon, spec.weight_decay,
           spec.momentum},
          texts};
}

double learning_rate_of(int64_t strategy, int64_t step) {
  return learning_rate(strategy_of(strategy).setup().workload.optimizer(), step);
}

// Applies dropout with a mask that depends on sample ids, step, seed and layer, not on positions in the batch. The
// first dimension of x must be the samples.
at::Tensor dropout(const at::Tensor& x, const at::Tensor& ids, int64_t step, int64_t seed, int64_t layer, double rate) {
  const Dropout keyed(rate, static_cast<uint64_t>(layer));
  return keyed.forward(x.flatten(1), {static_cast<uint64_t>(seed), step, ids}).view_as(x);
}

// Stores Python's answer to the innermost call from dpbench. Tensors beyond the end of `names` have no name. None in
// place of a tensor becomes an undefined tensor.
void answer(const Texts& names, const c10::List<std::optional<at::Tensor>>& tensors) {
  Frame& frame = innermost();
  for (size_t i = 0; i < tensors.size(); ++i)
    frame.answer.emplace_back(i < names.size() ? names[i] : "", tensors.get(i).value_or(at::Tensor()));
}

Texts names_of_phases() { return {phase_names.begin(), phase_names.end()}; }

// Registers an operator that takes or returns tensors as composite, so autograd sees the operations inside it.
template <class Operator>
auto composite(Operator function) {
  return torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, function);
}

TORCH_LIBRARY(dpbench, library) {
  library.def("register_strategy", register_strategy);
  library.def("register_workload", register_workload);
  library.def("setup", setup_of);
  library.def("new_group",
              [](int64_t strategy, std::vector<int64_t> ranks) { return strategy_of(strategy).new_group(ranks); });
  library.def("learning_rate", learning_rate_of);
  library.def("model", make_model);
  library.def("drop_model", drop_model);
  library.def("tensors", tensors_of_model);
  library.def("train", [](int64_t id, bool on) { model_of(id)->train(on); });
  library.def("number_in_python", number_in_python);
  library.def("sequence_plan", sequence_plan_of);
  library.def("dropout_rates", dropout_rates_of);
  library.def("recompute", [](int64_t id) { return model_of(id)->recompute(); });
  library.def("forward(int model, Tensor input, Tensor ids, int step, int seed) -> Tensor",
              composite(forward_of_model));
  library.def("loss(int strategy, Tensor output, Tensor target) -> Tensor", composite(loss_of_workload));
  library.def("dropout(Tensor x, Tensor ids, int step, int seed, int layer, float rate) -> Tensor", composite(dropout));
  library.def("given_tensors", [] { return innermost().tensors; });
  library.def("given_numbers", [] { return innermost().numbers; });
  library.def("given_texts", [] { return innermost().texts; });
  library.def("answer(str[] names, Tensor?[] tensors) -> ()", composite(answer));
  library.def("answer_numbers",
              [](std::vector<int64_t> numbers) { innermost().answered_numbers = std::move(numbers); });
  library.def("answer_texts", [](Texts texts) { innermost().texts = std::move(texts); });
  library.def("phases", names_of_phases);
}

}  // namespace
}  // namespace dpbench::python

extern "C" {
// Sets the function by which dpbench calls Python.
[[gnu::visibility("default")]] void dpbench_set_function(dpbench::python::Function function) {
  dpbench::python::set_function(function);
}
// Charges the time from now on to a phase of the running step. A thread that the Python strategy started handles no
// call from dpbench, so its time belongs to no phase. Not a torch operator, because a call of one takes 10 times as
// long.
[[gnu::visibility("default")]] void dpbench_enter_phase(int phase) {
  const dpbench::python::Frame* frame = dpbench::python::innermost_if_any();
  if (frame && frame->phases) frame->phases->enter(static_cast<dpbench::Phase>(phase));
}
// Python calls this function to set the error message of the innermost call from dpbench.
[[gnu::visibility("default")]] void dpbench_set_error(const char* text) { dpbench::python::innermost().error = text; }
}
