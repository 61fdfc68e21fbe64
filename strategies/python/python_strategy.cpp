#include "strategies/python/python_strategy.h"

#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "workloads/base/error.h"

namespace dpbench::python {
namespace {

std::mutex strategies_mutex;
std::map<int64_t, PythonStrategy*> strategies;
int64_t last_id = 0;

int64_t add(PythonStrategy* strategy) {
  const std::lock_guard lock(strategies_mutex);
  strategies[++last_id] = strategy;
  return last_id;
}

// Returns samples or targets on the strategy's device, with floating-point numbers in the dtype in which it stores
// them.
at::Tensor stored(const at::Tensor& tensor, const Setup& setup) {
  const at::ScalarType type = setup.dtype == at::kBFloat16 ? at::kFloat : setup.dtype;
  return tensor.to(setup.devices.at(0), tensor.is_floating_point() ? type : tensor.scalar_type());
}

Frame frame_of(std::span<const Batch> micro, const Setup& setup) {
  Frame frame;
  for (const Batch& batch : micro)
    frame.tensors.insert(frame.tensors.end(), {stored(batch.input, setup), stored(batch.target, setup), batch.ids});
  return frame;
}

}  // namespace

PythonStrategy& strategy_of(int64_t id) {
  const std::lock_guard lock(strategies_mutex);
  const auto found = strategies.find(id);
  if (found == strategies.end()) throw std::runtime_error("this strategy has ended");
  return *found->second;
}

PythonStrategy::PythonStrategy(const Setup& setup, const StrategyInfo& info)
    : setup_(setup), name_(info.name), id_(add(this)) {
  for (const ParamInfo& param : info.params) param_values_.push_back(param.name + "=" + setup.params.text(param.name));
  try {
    const auto register_group = [&](const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
      if (!group) return;
      c10d::register_process_group(group_name(axis), group);
      registered_groups_.push_back(group_name(axis));
    };
    register_group("", setup_.mesh.group());
    for (const Axis& axis : setup_.mesh.axes())
      if (axis.group != setup_.mesh.group()) register_group(axis.name, axis.group);
    call("make", id_);
  } catch (...) {
    leave();
    throw;
  }
}

PythonStrategy::~PythonStrategy() { leave(); }

// DTensor caches meshes by their ranks and finds the mesh's groups by name. So all strategies that this process makes,
// one after the other, use the same group names.
std::string PythonStrategy::group_name(const std::string& axis) const {
  const auto& world = setup_.mesh.group();
  if (axis.empty()) return world ? "dpbench" : "";
  const auto& group = setup_.mesh.axis(axis).group;
  if (!group) return "";
  return group == world ? "dpbench" : "dpbench_" + axis;
}

std::string PythonStrategy::new_group(const std::vector<int64_t>& ranks) {
  const std::vector<int> members(ranks.begin(), ranks.end());
  const std::string name = "dpbench_new_" + std::to_string(new_groups_.size());
  new_groups_.push_back(setup_.mesh.subgroup(members, made_of_ranks_[members]++));
  c10d::register_process_group(name, new_groups_.back());
  registered_groups_.push_back(name);
  return name;
}

void PythonStrategy::leave() noexcept {
  try {
    call("drop", id_);
  } catch (const std::exception&) {
    // The exception is ignored here, because Python has printed it to the rank's log.
  }
  for (const std::string& group : registered_groups_) c10d::unregister_process_group(group);
  const std::lock_guard lock(strategies_mutex);
  strategies.erase(id_);
}

StepResult PythonStrategy::step(int64_t step, std::span<const Batch> micro, Phases& phases) {
  Frame frame = frame_of(micro, setup_);
  frame.phases = &phases;
  const Frame done = call("step", id_, step, std::move(frame));
  check(done.answer.size() == 2, "a step must return its output and its loss");
  StepResult result{done.answer[0].second, done.answer[1].second};
  if (!result.output.defined())  // no output: the Python strategy gathers the step's output in a separate function
    result.gather_output = [this] { return only_tensor(call("gather_output", id_)); };
  return result;
}

at::Tensor PythonStrategy::forward(const Batch& mine) {
  return only_tensor(call("forward", id_, 0, frame_of({&mine, 1}, setup_)));
}
void PythonStrategy::finish() { call("finish", id_); }
NamedTensors PythonStrategy::parameters() { return call("parameters", id_).answer; }
NamedTensors PythonStrategy::gradients() { return call("gradients", id_).answer; }
NamedTensors PythonStrategy::buffers() { return call("buffers", id_).answer; }
NamedTensors PythonStrategy::state() { return call("state", id_).answer; }

KeptTensors PythonStrategy::kept_tensors() {
  const Frame done = call("kept_tensors", id_);
  KeptTensors kept;
  NamedTensors* const lists[] = {&kept.parameters, &kept.buffers, &kept.gradients, &kept.state};
  check(done.answered_numbers.size() == std::size(lists), "kept_tensors() must return four dictionaries");
  auto next = done.answer.begin();
  for (size_t i = 0; i < std::size(lists); ++i)
    for (int64_t k = 0; k < done.answered_numbers[i]; ++k) lists[i]->push_back(*next++);
  return kept;
}

void PythonStrategy::load(const Snapshot& snapshot) {
  Frame frame;
  for (const NamedTensors* tensors : {&snapshot.parameters, &snapshot.buffers, &snapshot.state}) {
    frame.numbers.push_back(static_cast<int64_t>(tensors->size()));
    for (const auto& [name, tensor] : *tensors) {
      frame.texts.push_back(name);
      frame.tensors.push_back(tensor);
    }
  }
  call("load", id_, 0, std::move(frame));
}

}  // namespace dpbench::python
