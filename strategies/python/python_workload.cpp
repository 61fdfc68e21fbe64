#include "strategies/python/python_workload.h"

#include <utility>

#include "workloads/base/error.h"

namespace dpbench::python {
namespace {

// Returns a child of the module. Adds a missing child.
std::shared_ptr<torch::nn::Module> child_of(torch::nn::Module& module, const std::string& name) {
  const auto children = module.named_children();
  const auto* child = children.find(name);
  return child ? *child : module.register_module(name, std::make_shared<torch::nn::Module>(name));
}

// Returns the submodule at the path, such as "encoder.layers.0". Adds missing submodules.
torch::nn::Module& submodule(torch::nn::Module& root, const std::string& path) {
  torch::nn::Module* module = &root;
  for (size_t from = 0; from < path.size();) {
    const size_t to = std::min(path.find('.', from), path.size());
    module = child_of(*module, path.substr(from, to - from)).get();
    from = to + 1;
  }
  return *module;
}

Batch batch_of(const Frame& answered, const at::Tensor& ids) {
  check(answered.answer.size() == 2, "batch() must return the input and the target");
  return {answered.answer[0].second, answered.answer[1].second, ids};
}

Frame with(std::vector<at::Tensor> tensors, std::vector<int64_t> numbers = {}) {
  return {.tensors = std::move(tensors), .numbers = std::move(numbers)};
}

}  // namespace

PythonModel::PythonModel(int64_t workload, uint64_t seed, bool smooth) {
  const Frame made = call("model", workload, static_cast<int64_t>(seed), with({}, {smooth}));
  check(made.answered_numbers.size() >= 2, "Python must answer with the model's number and its count of parameters");
  id_ = made.answered_numbers[0];
  const auto parameters = static_cast<size_t>(made.answered_numbers[1]);
  for (size_t i = 0; i < made.answer.size(); ++i) {
    const auto& [path, tensor] = made.answer[i];
    const size_t dot = path.rfind('.');
    torch::nn::Module& owner = dot == std::string::npos ? *this : submodule(*this, path.substr(0, dot));
    const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    if (i < parameters)
      owner.register_parameter(name, tensor, tensor.requires_grad());
    else
      owner.register_buffer(name, tensor);
  }
  // The first two numbers of Python's answer are the model's id and the number of its parameters. One number for each
  // block of the model follows: the number of child modules in the block. The texts of the answer are the names of
  // these children.
  auto name = made.texts.cbegin();
  for (size_t i = 2; i < made.answered_numbers.size(); ++i) {
    const auto end = name + made.answered_numbers[i];
    add_python_block({name, end});
    name = end;
  }
}

void PythonModel::add_python_block(const std::vector<std::string>& names) {
  Block block{.name = names.at(0), .layers = {}, .forward = {}};
  for (const std::string& name : names) block.layers.push_back(child_of(*this, name));
  block.forward = [id = id_, number = static_cast<int64_t>(blocks().size())](const at::Tensor& x,
                                                                             const Context& context) {
    return only_tensor(
        call("block_forward", id, context.step, with({x, context.ids}, {static_cast<int64_t>(context.seed), number})));
  };
  add_block(std::move(block));
}

PythonModel::~PythonModel() {
  try {
    call("drop_model", id_);
  } catch (const std::exception&) {
    // The exception is ignored here, because Python has printed it to the rank's log.
  }
}

at::Tensor PythonModel::forward(const at::Tensor& input, const Context& context) {
  if (recompute() > 0) return Model::forward(input, context);
  return only_tensor(
      call("model_forward", id_, context.step, with({input, context.ids}, {static_cast<int64_t>(context.seed)})));
}

void PythonModel::train(bool on) {
  torch::nn::Module::train(on);
  call("model_train", id_, on);
}

at::Tensor PythonOptimizer::step(const at::Tensor& parameter, const at::Tensor& gradient, double rate,
                                 NamedTensors& state) const {
  Frame frame = with({parameter, gradient, at::scalar_tensor(rate, at::kDouble)});
  for (const auto& [slot, tensor] : state) {
    frame.texts.push_back(slot);
    frame.tensors.push_back(tensor);
  }
  Frame stepped = call("optimizer_step", workload_, 0, std::move(frame));
  check(!stepped.answer.empty(), "Python must answer with the state and the parameter");
  at::Tensor after = stepped.answer.back().second;
  stepped.answer.pop_back();
  state = std::move(stepped.answer);
  return after;
}

std::shared_ptr<Model> PythonWorkload::model(uint64_t seed) const {
  return std::make_shared<PythonModel>(numbers_.id, seed, numbers_.smooth);
}
at::Tensor PythonWorkload::loss(const at::Tensor& output, const at::Tensor& target) const {
  return only_tensor(call("loss", numbers_.id, 0, with({output, target})));
}
int64_t PythonWorkload::loss_terms(const Batch& batch) const {
  if (numbers_.own_loss_terms) return call("loss_terms", numbers_.id, 0, with({batch.target})).answered_numbers.at(0);
  constexpr int64_t ignored = -100;  // the class that torch.nn.functional.cross_entropy leaves out by default
  return batch.target.scalar_type() == at::kLong ? batch.target.ne(ignored).sum().item<int64_t>() : batch.samples();
}
Batch PythonWorkload::batch(const at::Tensor& ids) const {
  return batch_of(call("batch", numbers_.id, 0, with({ids})), ids);
}
Batch PythonWorkload::test_batch(const at::Tensor& ids) const {
  if (numbers_.test_samples == 0) return Workload::test_batch(ids);
  return batch_of(call("test_batch", numbers_.id, 0, with({ids})), ids);
}

}  // namespace dpbench::python
