#include <algorithm>
#include <string>

#include "harness/front/plan/plan_steps.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Skips a case that cannot run under an outside launcher: its world differs from the number of started ranks, or it
// runs several replicas in one process.
void judge_launch(Row& row, const Selection& selection) {
  const int started = selection.launched_world;
  if (started == 0 || !row.skip_reason.empty()) return;
  const std::string world = std::to_string(row.spec.world);
  if (row.strategy->parallelism == Parallelism::ranks && row.spec.world != started)
    row.skip_reason = "a world of " + world + " needs " + world + " ranks; " + selection.launched_by + " started " +
                      std::to_string(started);
  if (row.strategy->parallelism == Parallelism::replicas && row.spec.world > 1)
    row.skip_reason = "'" + row.strategy->name + "' runs " + world + " replicas in one process. Run it without " +
                      selection.launched_by + ", or with --launcher self";
}

// Skips a case with a strategy or workload in Python under dpbench's own runtime, because backward passes in Python do
// not use that runtime.
void judge_runtime(Row& row) {
  if (row.spec.python && row.spec.runtime == Runtime::fast) row.skip_reason = "Python runs under --runtime torch alone";
}

// Skips a case whose mesh has an axis that the strategy does not use.
void judge_mesh(Row& row, const Catalogue& catalogue) {
  const std::string axis = row.strategy->missing_axis(parse_mesh(row.spec.mesh));
  if (axis.empty() || !row.skip_reason.empty()) return;
  row.skip_reason = "'" + row.strategy->name + "' does not use the axis " + axis + " of --mesh " + row.spec.mesh +
                    "; it uses " + join(row.strategy->axes);
  const MeshShape mesh = parse_mesh(row.spec.mesh);
  const auto other = std::ranges::find_if(catalogue.strategies, [&](const StrategyEntry& one) {
    return one.parallelism == Parallelism::ranks && one.missing_axis(mesh).empty();
  });
  if (other != catalogue.strategies.end()) row.skip_reason += ". Use --strategy " + other->name;
}

// True if the catalogue's sample count of the workload is valid for this case. --model, and a plug-in's scale other
// than 1, make the count invalid. --data does too, except for workloads that read the MNIST files, because dpbench has
// counted the samples in these files.
bool knows_sample_count(const WorkloadEntry& workload, const CaseSpec& spec) {
  const bool other_data = !spec.data_dir.empty() && !workload.digits;
  return workload.samples != 0 && spec.model.empty() && !other_data && !(workload.plugin && spec.scale != 1);
}

// Returns an error message if some rank gets too few samples in a training step; otherwise an empty string.
std::string too_few_samples(const Row& row, const Selection& selection) {
  const CaseSpec& spec = row.spec;
  const std::string name = spec.strategy + " on " + spec.workload, samples = std::to_string(spec.batch);
  const std::string batch =
      selection.batches.empty() ? spec.workload + "'s default batch of " + samples : "--batch " + samples;
  const int64_t fewest =
      row.strategy->parallelism == Parallelism::ranks ? spec.global_batch() / spec.replicas() : spec.global_batch();
  if (fewest == 0)
    return batch + " is smaller than the world " + std::to_string(spec.replicas()) + ": " + name +
           " needs a sample for each rank. Use --batch " + std::to_string(spec.replicas()) +
           " or more, or fewer devices";
  if (fewest < spec.accumulate)
    return "--accumulate " + std::to_string(spec.accumulate) + ": " + name + " has only " + std::to_string(fewest) +
           " samples per rank and step. Use a larger --batch";
  return "";
}

// Returns an error message if a training step is known to need more samples than the workload has; otherwise an empty
// string. Always empty for `train`, which allows a batch larger than the data set.
std::string too_many_samples(const Row& row, const Selection& selection) {
  const CaseSpec& spec = row.spec;
  const WorkloadEntry& workload = *row.workload;
  const int64_t needed = spec.global_batch();
  if (selection.whole_epochs || !knows_sample_count(workload, spec) || needed <= workload.samples) return "";
  const bool per_device = spec.scaling == Scaling::weak && spec.replicas() > 1,
             from_files = workload.digits && !spec.data_dir.empty();
  const std::string share = per_device ? std::to_string(spec.batch) + " on each of " + std::to_string(spec.replicas()) +
                                             (spec.mesh.empty() ? " devices, " : " replicas, ")
                                       : "";
  return "a step needs " + std::to_string(needed) + " samples (" + share + "--batch) and " + spec.workload + " has " +
         std::to_string(workload.samples) + (from_files ? " in --data " + one_line(spec.data_dir, 200) : "") + ". " +
         (from_files ? "Add samples, or use" : "Use") + " a smaller --batch" + (per_device ? " or fewer devices" : "");
}

// Checks a case's batch size. Throws UsageError for a bad --batch. Skips the case instead if the bad batch is the
// workload's default, if --batch is too large for a workload that the user did not name, or if the batch is one that
// `tune --over batch` tries besides that of the reference case.
void judge_batch(Row& row, const Selection& selection) {
  if (selection.check) return;
  const bool given = !selection.batches.empty() && selection.reference.batch.value_or(row.spec.batch) == row.spec.batch;
  std::string why = too_few_samples(row, selection);
  if (!why.empty() && given) throw UsageError(why);
  if (why.empty()) why = too_many_samples(row, selection);
  if (!row.skip_reason.empty()) return;
  if (!why.empty() && given && !selection.workloads.empty()) throw UsageError(why);
  row.skip_reason = why;
}

}  // namespace

void judge(Row& row, const Selection& selection, const Catalogue& catalogue) {
  judge_runtime(row);
  judge_mesh(row, catalogue);
  judge_launch(row, selection);
  judge_batch(row, selection);
}

}  // namespace dpbench
