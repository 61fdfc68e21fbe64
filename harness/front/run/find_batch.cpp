#include "harness/front/run/find_batch.h"

#include <algorithm>
#include <cstdio>

#include "harness/front/cli/quantities.h"
#include "harness/front/run/table.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/summarise.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Returns the memory in bytes of the rank that uses most: tensors on the CPU, memory reserved by the allocator on a
// GPU. 0: no tensor is large enough to be counted (CPU), or unknown (GPU).
double bytes_of(const CaseRecord& record) {
  int64_t most = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      most =
          std::max(most, record.spec.device == Device::cpu ? rank.step_tensor_bytes : rank.peak_device_reserved_bytes);
  return static_cast<double>(most);
}

std::string size_text(double bytes) {
  char text[32];
  const bool large = bytes >= 1e9;
  std::snprintf(text, sizeof text, "%.4g %s", bytes / (large ? 1e9 : 1e6), large ? "GB" : "MB");
  return text;
}

// Returns the smallest batch that gives each replica a sample for each micro-batch.
int64_t least_batch(const CaseSpec& spec) {
  return spec.accumulate * (spec.scaling == Scaling::strong ? spec.replicas() : 1);
}

}  // namespace

int64_t largest_batch(int64_t start, BatchRange range, const std::function<BatchTrial(int64_t)>& fits) {
  int64_t good = range.least - 1, bad = range.most + 1;
  for (int64_t next = std::clamp(start, range.least, range.most); bad - good > 1;) {
    const BatchTrial fit = fits(next);
    if (fit == BatchTrial::stop) break;
    (fit == BatchTrial::fits ? good : bad) = next;
    next = bad > range.most ? std::min(2 * good, range.most) : good + (bad - good) / 2;
  }
  return good;
}

std::vector<Cells> found_rows(const std::vector<FoundBatch>& all) {
  std::vector<Cells> rows = {{"STRATEGY", "WORKLOAD", "WORLD", "LARGEST BATCH", "MEMORY", "SAMPLES/s", "WHY NOT MORE"}};
  for (const FoundBatch& one : all) {
    std::string strategy = one.spec.strategy;
    for (const auto& [name, value] : one.spec.params) strategy += " " + name + "=" + value;
    char speed[32] = "-";
    if (one.samples_per_s) std::snprintf(speed, sizeof speed, "%.4g", *one.samples_per_s);
    rows.push_back({strategy, one.spec.workload, one.spec.mesh.empty() ? std::to_string(one.spec.world) : one.spec.mesh,
                    one.batch ? std::to_string(*one.batch) : "none fits", one.batch ? size_text(one.bytes) : "-", speed,
                    one.limit.empty() ? "-" : one.limit});
  }
  return rows;
}

FindBatchRun::FindBatchRun(const TuneOptions& options, World* world)
    : TimedRun(options, world), memory_bytes_(parse_memory(options.memory)) {}

void FindBatchRun::plan() {
  TimedRun::plan();
  const bool on_cpu =
      std::ranges::any_of(prepared_.plan.cases, [](const CaseSpec& s) { return s.device == Device::cpu; });
  if (on_cpu && memory_bytes_ == 0)
    throw UsageError("--find-batch needs --memory SIZE on the CPU, whose memory the ranks share with other programs");
}

// Replaces each planned case in the report by one case for each batch that was tried.
LoopEnding FindBatchRun::measure_with(CaseRunner& runner, LaunchLoop::MakeCommand make_command) {
  const auto end_of_planned = report_.cases.begin() + static_cast<std::ptrdiff_t>(prepared_.plan.cases.size());
  const std::vector<CaseRecord> planned(report_.cases.begin(), end_of_planned);
  report_.cases.erase(report_.cases.begin(), end_of_planned);
  std::string refusal;
  for (const CaseRecord& one : planned) {
    const LoopEnding ended = search(one, runner, make_command);
    if (ended.signal != 0) return ended;
    if (!ended.usage.empty()) refusal = ended.usage;
  }
  report_.status = RunStatus::complete;
  // As in `run`, a strategy's refusal to run a case is a usage error only if no case was measured.
  return {.usage = measured() ? "" : refusal};
}

// Searches for the largest batch of a planned case. Returns the signal that ended the search, or the reason with which
// the strategy refused the case.
LoopEnding FindBatchRun::search(const CaseRecord& planned, CaseRunner& runner,
                                const LaunchLoop::MakeCommand& make_command) {
  FoundBatch found;
  found.spec = planned.spec;
  LoopEnding ended;
  const auto fits = [&](int64_t batch) {
    Report one = report_;
    one.cases = {planned};
    CaseRecord& record = one.cases.front();
    record.spec.batch = batch;
    record.spec.id = case_id(record.spec);
    if (found.batch || !found.limit.empty()) progress_->add_case();  // another batch than the planned one
    LaunchLoop loop(
        options_, one, 1, runner, *progress_, make_command, [] {}, cpu_times_reader(), cores_of_run(prepared_));
    ended = loop.run();
    if (ended.signal != 0) return BatchTrial::stop;
    const BatchTrial fit = judge(record, ended, found);
    for (LaunchRecord& launch : record.launches) *launch.order += launches_of(report_);
    report_.env = one.env;  // keep the versions of libraries that the workers reported while this batch was tried
    report_.cases.push_back(record);
    summarise(report_);
    save(false);
    return fit;
  };
  largest_batch(planned.spec.batch, {.least = least_batch(planned.spec)}, fits);
  found_.push_back(std::move(found));
  return ended;
}

// Judges whether a measured batch fits. A batch that does not fit becomes a skipped case with the reason.
BatchTrial FindBatchRun::judge(CaseRecord& record, const LoopEnding& ended, FoundBatch& found) const {
  const auto refuse = [&](const std::string& why, BatchTrial fit) {
    record.status = CaseStatus::skipped;
    record.reason = found.limit = one_line(why, 200);
    return fit;
  };
  if (record.out_of_memory) return refuse(record.reason, BatchTrial::refused);
  // The worker refuses a batch larger than the data set. If no batch has fit before a refusal, the search ends.
  if (!ended.usage.empty() || record.status == CaseStatus::skipped)
    return refuse(record.reason, found.batch ? BatchTrial::refused : BatchTrial::stop);
  if (record.bad()) {
    found.limit = one_line(record.status + ": " + record.reason, 200);
    return BatchTrial::stop;
  }
  const double bytes = bytes_of(record);
  if (memory_bytes_ > 0 && bytes == 0 && record.spec.device != Device::cpu)
    return refuse("the memory of its tensors is unknown", BatchTrial::stop);
  if (memory_bytes_ > 0 && bytes > memory_bytes_)
    return refuse("takes " + size_text(bytes) + ", more than " + size_text(memory_bytes_), BatchTrial::refused);
  found.batch = record.spec.batch, found.bytes = bytes, found.samples_per_s = record.derived.samples_per_s;
  return BatchTrial::fits;
}

std::string FindBatchRun::output() const {
  if (options_.output == Form::json) return json_text(to_json(report_));
  return rows_text(found_rows(found_), {false, false, false, true, true, true, false}, options_.output);
}

}  // namespace dpbench
