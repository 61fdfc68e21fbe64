#include "harness/worker/check/dump.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <ATen/ATen.h>

#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

constexpr char index_name[] = "index.json";

// Returns a folder name for a case id, in which characters such as slashes and colons are replaced.
std::string folder_of(std::string id) {
  for (char& c : id)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return id;
}

std::string file_of(const std::string& folder, const Bench& bench, const Scenario& scenario, int rank, size_t step) {
  return folder + "/" + scenario.name + "-seed" + std::to_string(bench.seed) + "-rank" + std::to_string(rank) +
         "-step" + std::to_string(step) + ".safetensors";
}

void add(TensorFile& file, const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) file.tensors.emplace_back(name, tensor.contiguous());
}

void add(TensorFile& file, const std::string& group, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) add(file, group + "." + name, tensor);
}

TensorFile contents(const Bench& bench, const Scenario& scenario, const Evidence& evidence, size_t step) {
  const StepEvidence& seen = evidence.steps[step];
  const bool first = step == 0;
  TensorFile file;
  add(file, "parameters", first ? evidence.parameters : evidence.steps[step - 1].parameters);
  add(file, "buffers", first ? evidence.buffers : evidence.steps[step - 1].buffers);
  add(file, "state", first ? evidence.state : evidence.steps[step - 1].state);
  for (size_t micro = 0; micro < seen.ids.size(); ++micro) {
    const Batch batch = batch_of(bench.workload, scenario, bench.distribution, seen.ids[micro], evidence.rank,
                                 static_cast<int64_t>(step));
    const std::string group = "batch." + std::to_string(micro) + ".";
    add(file, group + "input", batch.input);
    add(file, group + "target", batch.target);
    add(file, group + "ids", batch.ids);
  }
  add(file, "output", seen.output);
  add(file, "loss", seen.loss);
  add(file, "gradients", seen.gradients);
  add(file, "parameters_after", seen.parameters);
  add(file, "buffers_after", seen.buffers);
  return file;
}

Json read_index(const fs::path& path) {
  if (!fs::exists(path)) return {{"format", "dpbench-dump-1"}, {"files", Json::array()}};
  std::ifstream in(path);
  return parse_json(std::string(std::istreambuf_iterator<char>(in), {}), path.string());
}

}  // namespace

Dump::Dump(std::string directory, const CaseSpec& spec, int rank)
    : directory_(std::move(directory)), spec_(spec), rank_(rank) {}

void Dump::add(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
               const Evidence& evidence) {
  if (!evidence.error.empty() || scenario.learns || scenario.other_state) return;
  const std::string folder = folder_of(spec_.id);
  for (size_t step = 0; step < evidence.steps.size(); ++step) {
    const fs::path path = fs::path(directory_) / file_of(folder, bench, scenario, rank_, step);
    if (fs::exists(path)) return;
    fs::create_directories(path.parent_path());
    save_tensors(path.string(), contents(bench, scenario, evidence, step));
    if (rank_ != 0) continue;
    for (int rank = 0; rank < bench.distribution.owners(); ++rank)
      files_.push_back({{"file", file_of(folder, bench, scenario, rank, step)},
                        {"case", spec_.id},
                        {"strategy", spec_.strategy},
                        {"workload", spec_.workload},
                        {"world", spec_.world},
                        {"ranks", bench.distribution.owners()},
                        {"scenario", scenario.name},
                        {"dtype", name_of(scenario.dtype == at::kDouble ? Dtype::f64 : spec_.dtype)},
                        {"accumulate", micros_in(scenario, static_cast<int64_t>(step))},
                        {"clipped", scenario.clip},
                        {"clip_norm", clip_norm ? Json(*clip_norm) : Json()},
                        {"smooth", scenario.smooth},
                        {"step_seed", bench.step_seed()},
                        {"rank", rank},
                        {"step", step}});
  }
}

void Dump::finish() {
  if (rank_ != 0 || files_.empty()) return;
  const fs::path path = fs::path(directory_) / index_name, fresh = path.string() + ".new";
  Json index = read_index(path);
  for (Json& file : files_) index["files"].push_back(std::move(file));
  std::ofstream out(fresh);
  out << index.dump(1) << '\n';
  out.close();
  if (!out) throw std::runtime_error("--dump: cannot write " + fresh.string());
  fs::rename(fresh, path);
}

}  // namespace dpbench
