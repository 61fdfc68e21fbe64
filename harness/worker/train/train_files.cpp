#include "harness/worker/train/train_files.h"

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include <ATen/ATen.h>

#include "harness/worker/train/train_lines.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace {

// Adapts a checkpoint's losses to a different world size: every rank continues with the mean loss over the ranks of the
// checkpoint.
void pool_running(TrainingState& state, int world) {
  std::vector<double> mean(static_cast<size_t>(state.step), 0);
  for (const auto& losses : state.running)
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += losses[i] / static_cast<double>(state.running.size());
  state.running.assign(static_cast<size_t>(world), mean);
}

// True if the --checkpoint path ends in a slash, which means a directory.
bool is_directory(const std::string& path) { return path.ends_with('/'); }

// Returns a random number that identifies one save of a checkpoint.
int64_t drawn_mark() {
  std::random_device random;
  return static_cast<int64_t>(random()) << 31 ^ static_cast<int64_t>(random());
}

std::string hex(int64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Returns the whole tensors of a snapshot, for this rank to write to a checkpoint; none unless `everything` is set.
std::vector<StatePart> whole_of(const Snapshot& snapshot, bool everything) {
  std::vector<StatePart> all;
  const auto add = [&](StatePart::Kind kind, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) all.push_back({kind, whole_part(name, tensor)});
  };
  if (!everything) return all;
  add(StatePart::Kind::parameter, snapshot.parameters);
  add(StatePart::Kind::buffer, snapshot.buffers);
  add(StatePart::Kind::state, snapshot.state);
  return all;
}

std::vector<std::vector<double>> rows_of(const at::Tensor& table) {
  std::vector<std::vector<double>> rows;
  for (int64_t i = 0; i < table.size(0); ++i) {
    const at::Tensor row = table[i].contiguous();
    rows.emplace_back(row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel());
  }
  return rows;
}

}  // namespace

void TrainFiles::validate() const {
  const TrainOptions& options = job_.options;
  const bool stores = options.checkpoint_every > 0 || !options.resume.empty();
  if (stores && (job_.info.gradient == Gradient::local || !job_.own.empty()))
    throw UsageError("--checkpoint-every and --resume: " + job_.info.name +
                     " keeps separate parameters and optimizer state on each rank, but a checkpoint holds one copy");
  const bool in_parts = options.checkpoint_every > 0 && is_directory(options.checkpoint);
  if (in_parts) require_parts_directory(options.checkpoint, "--checkpoint");
  if (!job_.is_rank0()) return;
  if (!options.save.empty()) require_writable(options.save, "--save");
  if (options.checkpoint_every == 0 || in_parts) return;
  if (std::filesystem::is_directory(options.checkpoint))
    throw UsageError("--checkpoint '" + options.checkpoint + "' is a directory. End it with / for a file of each rank");
  require_writable(options.checkpoint, "--checkpoint");
}

RunIdentity TrainFiles::identity() const {
  const CaseSpec& spec = job_.spec;
  return {{"workload", spec.workload},
          {"model", spec.model},
          {"scale", std::to_string(spec.scale)},
          {"dtype", name_of(spec.dtype)},
          {"samples", std::to_string(workload_.samples())},
          {"data", spec.data_dir.empty() ? "drawn" : "files"},
          {"seed", std::to_string(spec.seed)},
          {"global_batch", std::to_string(source_.global_batch())},
          {"accumulate", std::to_string(spec.accumulate)},
          {"clip_norm", spec.clip_norm ? python_float(*spec.clip_norm) : "none"},
          {"drop_last", job_.options.drop_last ? "yes" : "no"},
          {"steps_per_epoch", std::to_string(source_.steps_per_epoch())}};
}

std::optional<TrainingState> TrainFiles::resume(Strategy& strategy) const {
  const std::string& path = job_.options.resume;
  if (path.empty()) return std::nullopt;
  Checkpoint stored = load_checkpoint(path, identity(), source_.steps_per_epoch());
  if (stored.state.epoch >= job_.epochs())
    throw UsageError("--resume '" + path + "' has finished all of " + std::to_string(job_.epochs()) +
                     " epochs. Use a larger --epochs.");
  discard_one_step(strategy);
  try {
    strategy.load(stored.snapshot);
  } catch (const UsageError& error) {
    throw UsageError("--resume '" + path + "': " + error.what());
  }
  const int world = job_.group.world();
  if (stored.state.running.size() != static_cast<size_t>(world)) pool_running(stored.state, world);
  return std::move(stored.state);
}

// Takes one step and discards its result, so that a resumed run is bit-identical to an uninterrupted run. A strategy's
// first step may round differently: c10d's Reducer multiplies by 1/n until gradients are views of its buckets, then
// divides by n.
void TrainFiles::discard_one_step(Strategy& strategy) const {
  Phases unused;
  strategy.step(0, source_.at(0), unused);
  job_.pulse.beat();
}

bool TrainFiles::due(int64_t steps_done) const {
  return job_.options.checkpoint_every > 0 && steps_done % job_.options.checkpoint_every == 0;
}

void TrainFiles::checkpoint(Strategy& strategy, const TrainingState& state, const std::vector<double>& losses) const {
  strategy.buffers();  // waits for a step that ends in a thread
  at::Tensor running =
      at::zeros({job_.group.world(), static_cast<int64_t>(losses.size())}, at::TensorOptions(at::kDouble));
  if (!losses.empty()) {
    running[job_.group.rank()] = at::tensor(losses, at::TensorOptions(at::kDouble));
    job_.group.sum(running);
  }
  TrainingState known = state;
  known.running = rows_of(running);
  if (is_directory(job_.options.checkpoint)) return write_stored_parts(strategy, known);
  const Checkpoint made{snapshot_of(strategy), std::move(known)};
  job_.pulse.beat();
  if (!job_.is_rank0()) return;
  save_checkpoint(job_.options.checkpoint, identity(), made);
  job_.pulse.beat();
}

void TrainFiles::write_stored_parts(Strategy& strategy, const TrainingState& state) const {
  const std::string& directory = job_.options.checkpoint;
  std::optional<std::vector<StatePart>> parts = strategy.stored_parts();
  if (!parts) parts = whole_of(snapshot_of(strategy), job_.is_rank0());
  job_.pulse.beat();
  const Save save{.mark = hex(job_.group.agree(drawn_mark())), .files = job_.group.world()};
  save_stored_parts(directory, save, job_.group.rank(), *parts, state);
  job_.pulse.beat();
  job_.group.barrier();  // wait until every rank has written its file
  if (job_.is_rank0()) commit_checkpoint(directory, save, identity(), state);
  job_.group.barrier();  // wait until rank 0 has deleted the files of the previous save
}

void TrainFiles::save(Strategy& strategy) const {
  if (job_.options.save.empty()) return;
  TensorFile file{.tensors = strategy.parameters(), .metadata = {{"format", "pt"}}};
  for (auto& named : strategy.buffers()) file.tensors.push_back(std::move(named));
  if (job_.is_rank0()) save_tensors(job_.options.save, file);
}

}  // namespace dpbench
