#include <string>

#include "harness/front/plan/plan_steps.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Under a launcher the ranks are there already: no more, no fewer.
void judge_launch(Row& row, const Selection& what) {
  const int started = what.launched_world;
  if (started == 0 || !row.why_not.empty()) return;
  const std::string world = std::to_string(row.spec.world);
  if (row.strategy->parallelism == Parallelism::ranks && row.spec.world != started)
    row.why_not = what.launched_by + " started " + std::to_string(started) + " ranks, and a world of " + world +
                  " needs " + world;
  if (row.strategy->parallelism == Parallelism::replicas && row.spec.world > 1)
    row.why_not = "'" + row.strategy->name + "' is one process with " + world + " replicas: run it without " +
                  what.launched_by + ", or with --launcher self";
}

// What the catalogue tells of a built-in workload stands for every scale, and for --data where it reads none.
bool tells_rows(const WorkloadEntry& workload, const CaseSpec& spec) {
  const bool other_data = !spec.data_dir.empty() && !workload.digits;  // the rows of digits' files were counted
  return workload.samples != 0 && !(workload.plugin && (spec.scale != 1 || other_data));
}

// Why a rank has too few rows in a step; empty: it has enough.
std::string too_few(const Row& row, const Selection& what) {
  const CaseSpec& spec = row.spec;
  const std::string who = spec.strategy + " on " + spec.workload, rows = std::to_string(spec.batch);
  const std::string batch = what.batches.empty() ? spec.workload + "'s own batch of " + rows : "--batch " + rows;
  const int64_t fewest =
      row.strategy->parallelism == Parallelism::ranks ? spec.global_batch() / spec.world : spec.global_batch();
  if (fewest == 0)
    return batch + " is smaller than the world " + std::to_string(spec.world) + ": " + who +
           " needs a row for each rank; use --batch " + std::to_string(spec.world) + " or more, or fewer devices";
  if (fewest < spec.accumulate)
    return "--accumulate " + std::to_string(spec.accumulate) + ": " + who + " has only " + std::to_string(fewest) +
           " rows in a step of a rank; use a larger --batch";
  return "";
}

// Why a step has more rows than there are; empty: it has not.
std::string too_many(const Row& row, const Selection& what) {
  const CaseSpec& spec = row.spec;
  const WorkloadEntry& workload = *row.workload;
  const int64_t rows = spec.global_batch();
  if (what.whole_epochs || !tells_rows(workload, spec) || rows <= workload.samples) return "";
  const bool several = spec.scaling == Scaling::weak && spec.world > 1,
             given = workload.digits && !spec.data_dir.empty();
  const std::string each =
      several ? std::to_string(spec.batch) + " on each of " + std::to_string(spec.world) + " devices, " : "";
  return "a step of " + std::to_string(rows) + " rows (" + each + "--batch) is more than " + spec.workload + " has" +
         (given ? " in --data " + one_line(spec.data_dir, 200) : "") + " (" + std::to_string(workload.samples) + "); " +
         (given ? "give it more rows, or " : "") + "use a smaller --batch" + (several ? " or fewer devices" : "");
}

// A batch that the user chose is refused; one that is a workload's own is skipped, and so is one too large for a
// workload that nobody named.
void judge_batch(Row& row, const Selection& what) {
  if (what.own_rows) return;
  std::string why = too_few(row, what);
  if (!why.empty() && !what.batches.empty()) throw UsageError(why);
  if (why.empty()) why = too_many(row, what);
  if (!row.why_not.empty()) return;
  if (!why.empty() && !what.batches.empty() && !what.workloads.empty()) throw UsageError(why);
  row.why_not = why;
}

}  // namespace

void judge(Row& row, const Selection& what) {
  judge_launch(row, what);
  judge_batch(row, what);
}

}  // namespace dpbench
