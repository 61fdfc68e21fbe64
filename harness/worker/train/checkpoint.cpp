#include "harness/worker/train/checkpoint.h"

#include <charconv>
#include <system_error>

#include <ATen/ATen.h>

#include "harness/worker/train/train_lines.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace {

constexpr const char* kind_key = "dpbench";
constexpr const char* kind_value = "checkpoint 1";
constexpr const char* parameter_prefix = "parameter:";
constexpr const char* buffer_prefix = "buffer:";
constexpr const char* state_prefix = "optimizer:";

at::Tensor tensor_of(const std::vector<double>& values) { return at::tensor(values, at::TensorOptions(at::kDouble)); }

void add_all(TensorFile& file, const NamedTensors& named, const std::string& prefix) {
  for (const auto& [name, tensor] : named) file.tensors.emplace_back(prefix + name, tensor);
}

// Reads what belongs to one run, and says of which file it was when it cannot.
class Reader {
 public:
  explicit Reader(const std::string& path) : what_("--resume '" + path + "'"), file_(load_tensors(path, "--resume")) {
    if (const auto kind = file_.metadata.find(kind_key); kind == file_.metadata.end() || kind->second != kind_value)
      refuse(
          "is no checkpoint of dpbench (what --save wrote is a model alone, which has no optimizer and no place to go "
          "on from)");
  }

  [[noreturn]] void refuse(const std::string& why) const { throw UsageError(what_ + " " + why); }

  std::string text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) refuse("does not say its " + key);
    return found->second;
  }

  template <class T>
  T number(const std::string& key) const {
    const std::string value = text(key);
    T parsed{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc{} || end != value.data() + value.size() || !(parsed >= 0))
      refuse("gives '" + value.substr(0, 40) + "' as its " + key);
    return parsed;
  }

  NamedTensors all(const std::string& prefix) const {
    NamedTensors named;
    for (const auto& [name, tensor] : file_.tensors)
      if (name.starts_with(prefix)) named.emplace_back(name.substr(prefix.size()), tensor);
    return named;
  }

  at::Tensor numbers(const std::string& name, int64_t dimensions) const {
    const at::Tensor tensor = file_.find(name);
    if (!tensor.defined() || tensor.scalar_type() != at::kDouble || tensor.dim() != dimensions)
      refuse("has no '" + name + "' of " + std::to_string(dimensions) + " dimensions in F64");
    return tensor;
  }
  std::vector<double> list(const std::string& name) const { return list_of_doubles(numbers(name, 1)); }

  static std::vector<double> list_of_doubles(const at::Tensor& tensor) {
    return {tensor.const_data_ptr<double>(), tensor.const_data_ptr<double>() + tensor.numel()};
  }

 private:
  std::string what_;
  TensorFile file_;
};

std::vector<std::vector<double>> running_losses(const Reader& reader, int64_t steps) {
  const at::Tensor table = reader.numbers("loss.running", 2);
  if (table.size(0) < 1 || table.size(1) != steps) reader.refuse("has the losses of other steps than it says it had");
  std::vector<std::vector<double>> rows;
  for (int64_t rank = 0; rank < table.size(0); ++rank) rows.push_back(Reader::list_of_doubles(table[rank]));
  return rows;
}

}  // namespace

void save_checkpoint(const std::string& path, const RunIdentity& identity, const Checkpoint& checkpoint) {
  const TrainingState& state = checkpoint.state;
  TensorFile file;
  file.metadata.insert(identity.begin(), identity.end());
  file.metadata[kind_key] = kind_value;
  file.metadata["epoch"] = std::to_string(state.epoch);
  file.metadata["step"] = std::to_string(state.step);
  file.metadata["seconds"] = python_float(state.seconds);
  add_all(file, checkpoint.snapshot.parameters, parameter_prefix);
  add_all(file, checkpoint.snapshot.buffers, buffer_prefix);
  add_all(file, checkpoint.snapshot.state, state_prefix);
  std::vector<at::Tensor> rows;
  for (const auto& losses : state.running) rows.push_back(tensor_of(losses));
  file.tensors.emplace_back("loss.running", at::stack(rows));
  file.tensors.emplace_back("loss.epochs", tensor_of(state.epoch_losses));
  file.tensors.emplace_back("loss.curve", tensor_of(state.loss_curve));
  file.tensors.emplace_back("accuracy", tensor_of(state.accuracy));
  save_tensors(path, file);
}

Checkpoint load_checkpoint(const std::string& path, const RunIdentity& identity, int64_t steps_per_epoch) {
  const Reader reader(path);
  for (const auto& [key, mine] : identity)
    if (const std::string theirs = reader.text(key); theirs != mine)
      reader.refuse("was made with " + key + " " + theirs.substr(0, 100) + ", and this run has " + key + " " + mine);
  TrainingState state;
  state.epoch = reader.number<int64_t>("epoch");
  state.step = reader.number<int64_t>("step");
  if (state.step >= steps_per_epoch)
    reader.refuse("stands at step " + std::to_string(state.step) + " of an epoch of " +
                  std::to_string(steps_per_epoch));
  state.seconds = reader.number<double>("seconds");
  state.running = running_losses(reader, state.step);
  state.epoch_losses = reader.list("loss.epochs");
  state.loss_curve = reader.list("loss.curve");
  state.accuracy = reader.list("accuracy");
  const auto epochs = static_cast<size_t>(state.epoch);
  if (state.epoch_losses.size() != epochs || state.loss_curve.size() != epochs * static_cast<size_t>(steps_per_epoch))
    reader.refuse("has the losses of other epochs than it says it had");
  return {{reader.all(parameter_prefix), reader.all(buffer_prefix), reader.all(state_prefix)}, std::move(state)};
}

}  // namespace dpbench
