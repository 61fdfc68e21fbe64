#include "harness/worker/train/checkpoint.h"

#include <filesystem>
#include <map>

#include <ATen/ATen.h>

#include "harness/worker/train/train_lines.h"
#include "workloads/base/number.h"
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

std::string prefix_of(StatePart::Kind kind) {
  if (kind == StatePart::Kind::parameter) return parameter_prefix;
  return kind == StatePart::Kind::buffer ? buffer_prefix : state_prefix;
}

std::map<std::string, std::string> progress_texts(const RunIdentity& identity, const TrainingState& state) {
  std::map<std::string, std::string> texts(identity.begin(), identity.end());
  texts[kind_key] = kind_value;
  texts["epoch"] = std::to_string(state.epoch);
  texts["step"] = std::to_string(state.step);
  texts["seconds"] = python_float(state.seconds);
  return texts;
}

NamedTensors progress_tensors(const TrainingState& state) {
  std::vector<at::Tensor> rows;
  for (const auto& losses : state.running) rows.push_back(tensor_of(losses));
  return {{"loss.running", at::stack(rows)},
          {"loss.epochs", tensor_of(state.epoch_losses)},
          {"loss.curve", tensor_of(state.loss_curve)},
          {"accuracy", tensor_of(state.accuracy)}};
}

// Reads typed values (texts, numbers, tensors, ...) from a checkpoint file. Error messages name the file.
class Reader {
 public:
  explicit Reader(const std::string& path)
      : what_("--resume '" + path + "'"),
        file_(std::filesystem::is_directory(path) ? load_parts(path, "--resume") : load_tensors(path, "--resume")) {
    if (const auto kind = file_.metadata.find(kind_key); kind == file_.metadata.end() || kind->second != kind_value)
      refuse(
          "is not a dpbench checkpoint. Use a file written by --checkpoint; --save writes the model only, without "
          "optimizer state and progress.");
  }

  [[noreturn]] void refuse(const std::string& why) const { throw UsageError(what_ + " " + why); }

  std::string text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) refuse("has no " + key);
    return found->second;
  }

  template <class T>
  T number(const std::string& key) const {
    const std::string value = text(key);
    const auto parsed = parse_number<T>(value);
    if (!parsed || !(*parsed >= 0)) refuse("has an invalid " + key + ": '" + value.substr(0, 40) + "'");
    return *parsed;
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
      refuse("has no F64 tensor '" + name + "' with " + std::to_string(dimensions) + " dimensions");
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
  if (table.size(0) < 1 || table.size(1) != steps) reader.refuse("is damaged: loss.running does not match its step");
  std::vector<std::vector<double>> rows;
  for (int64_t rank = 0; rank < table.size(0); ++rank) rows.push_back(Reader::list_of_doubles(table[rank]));
  return rows;
}

}  // namespace

void save_checkpoint(const std::string& path, const RunIdentity& identity, const Checkpoint& checkpoint) {
  TensorFile file{.tensors = progress_tensors(checkpoint.state),
                  .metadata = progress_texts(identity, checkpoint.state)};
  add_all(file, checkpoint.snapshot.parameters, parameter_prefix);
  add_all(file, checkpoint.snapshot.buffers, buffer_prefix);
  add_all(file, checkpoint.snapshot.state, state_prefix);
  save_tensors(path, file);
}

void save_stored_parts(const std::string& directory, const Save& save, int number, const std::vector<StatePart>& stored,
                       const TrainingState& state) {
  std::vector<TensorPart> parts;
  for (const StatePart& one : stored) {
    parts.push_back(one.part);
    parts.back().name = prefix_of(one.kind) + one.part.name;
  }
  if (number == 0)
    for (const auto& [name, tensor] : progress_tensors(state)) parts.push_back(whole_part(name, tensor));
  write_parts(directory, save, number, parts);
}

void commit_checkpoint(const std::string& directory, const Save& save, const RunIdentity& identity,
                       const TrainingState& state) {
  commit_parts(directory, save, progress_texts(identity, state));
}

Checkpoint load_checkpoint(const std::string& path, const RunIdentity& identity, int64_t steps_per_epoch) {
  const Reader reader(path);
  for (const auto& [key, expected] : identity)
    if (const std::string found = reader.text(key); found != expected)
      reader.refuse("was made with " + key + " " + found.substr(0, 100) + ", but this run has " + key + " " + expected);
  TrainingState state;
  state.epoch = reader.number<int64_t>("epoch");
  state.step = reader.number<int64_t>("step");
  if (state.step >= steps_per_epoch)
    reader.refuse("is at step " + std::to_string(state.step) + ", but an epoch has " + std::to_string(steps_per_epoch) +
                  " steps");
  state.seconds = reader.number<double>("seconds");
  state.running = running_losses(reader, state.step);
  state.epoch_losses = reader.list("loss.epochs");
  state.loss_curve = reader.list("loss.curve");
  state.accuracy = reader.list("accuracy");
  const auto epochs = static_cast<size_t>(state.epoch);
  if (state.epoch_losses.size() != epochs || state.loss_curve.size() != epochs * static_cast<size_t>(steps_per_epoch))
    reader.refuse("is damaged: its losses do not match its epoch");
  return {{reader.all(parameter_prefix), reader.all(buffer_prefix), reader.all(state_prefix)}, std::move(state)};
}

}  // namespace dpbench
