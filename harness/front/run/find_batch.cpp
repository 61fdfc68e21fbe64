#include "harness/front/run/find_batch.h"

#include <algorithm>
#include <cstdio>

#include "harness/front/run/choose_threads.h"
#include "harness/front/run/table.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/derived.h"
#include "harness/report/figures/summarise.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int64_t most_samples = 1 << 24;
constexpr int usual_trials = 10;  // of a case, for the progress line

// Memory of the fullest device: on the CPU, whose processes hold much else, that of tensors.
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

}  // namespace

int64_t largest_batch(int64_t start, int64_t most, const std::function<Fit(int64_t)>& fits) {
  int64_t good = 0, bad = most + 1;
  for (int64_t next = std::min(start, most); bad - good > 1;) {
    const Fit fit = fits(next);
    if (fit == Fit::stop) break;
    (fit == Fit::yes ? good : bad) = next;
    next = bad > most ? std::min(2 * good, most) : good + (bad - good) / 2;
  }
  return good;
}

std::vector<Cells> found_rows(const std::vector<FoundBatch>& all) {
  std::vector<Cells> rows = {{"STRATEGY", "WORKLOAD", "WORLD", "LARGEST BATCH", "MEMORY", "SAMPLES/s", "ONE MORE"}};
  for (const FoundBatch& one : all) {
    std::string strategy = one.spec.strategy;
    for (const auto& [name, value] : one.spec.params) strategy += " " + name + "=" + value;
    const bool any = one.spec.batch > 0;
    char speed[32] = "-";
    if (one.samples_per_s) std::snprintf(speed, sizeof speed, "%.4g", *one.samples_per_s);
    rows.push_back({strategy, one.spec.workload, one.spec.mesh.empty() ? std::to_string(one.spec.world) : one.spec.mesh,
                    any ? std::to_string(one.spec.batch) : "none fits", any ? size_text(one.bytes) : "-", speed,
                    one.limit.empty() ? "-" : one.limit});
  }
  return rows;
}

void FindBatchRun::plan() {
  TimedRun::plan();
  const bool on_cpu =
      std::ranges::any_of(prepared_.plan.cases, [](const CaseSpec& s) { return s.device == Device::cpu; });
  if (on_cpu && tune_options_.memory_bytes == 0)
    throw UsageError("--find-batch needs --memory SIZE on the CPU, whose memory the ranks share with other programs");
}

Run::Start FindBatchRun::begin() {
  Start start = TimedRun::begin();
  start.cases = usual_trials * prepared_.plan.cases.size();
  return start;
}

LoopEnding FindBatchRun::run_cases() {
  const std::vector<CaseSpec> planned = prepared_.plan.cases;
  for (const CaseSpec& spec : planned)
    if (ending_.signal == 0 && ending_.usage.empty()) search(spec);
  report_.answer.reset();  // it compares batches of one strategy
  report_.cases = std::move(records_);
  report_.status = ending_.signal == 0 ? RunStatus::complete : RunStatus::interrupted;
  summarise(report_);
  return ending_;
}

void FindBatchRun::search(const CaseSpec& spec) {
  FoundBatch found;
  found.spec = spec;
  found.spec.batch = 0;
  stopped_ = false;
  largest_batch(spec.batch, most_samples, [&](int64_t batch) {
    CaseSpec one = spec;
    one.batch = batch;
    one.id = case_id(one);
    return tried(one, found);
  });
  if (!stopped_) found_.push_back(std::move(found));
}

// Measures a batch. A batch that does not fit is skipped, with the reason.
Fit FindBatchRun::tried(const CaseSpec& spec, FoundBatch& found) {
  prepared_.plan.cases = {spec};
  report_.cases.assign(1, {});
  report_.cases.front().spec = spec;
  const LoopEnding ended = TimedRun::run_cases();
  stopped_ = ended.signal != 0;
  if (stopped_) {
    ending_ = ended;
    return Fit::stop;
  }
  CaseRecord& record = records_.emplace_back(std::move(report_.cases.front()));
  const double bytes = bytes_of(record), limit = tune_options_.memory_bytes;
  const bool out_of_memory = record.reason.starts_with("out of memory"), too_large = limit > 0 && bytes > limit;
  const bool refused = !ended.usage.empty() || record.status == CaseStatus::skipped;
  if (out_of_memory || too_large || (refused && found.spec.batch > 0)) {
    found.limit = too_large ? "takes " + size_text(bytes) : one_line(record.reason, 200);
    record.status = CaseStatus::skipped;
    record.reason = too_large ? "does not fit: " + found.limit : record.reason;
    return Fit::no;
  }
  if (record.bad() || refused) {
    ending_.usage = ended.usage;
    stopped_ = true;
    return Fit::stop;
  }
  found.spec.batch = spec.batch;
  found.bytes = bytes;
  found.samples_per_s = record.derived.samples_per_s;
  return Fit::yes;
}

std::string FindBatchRun::output() const {
  if (options_.output == Form::json) return json_text(to_json(report_));
  return rows_text(found_rows(found_), {false, false, false, true, true, true, false}, options_.output);
}

}  // namespace dpbench
