#include "harness/micro/table.h"

#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

namespace dpbench::micro {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

// Returns why a benchmark failed, or an empty string if it did not. Google Benchmark 1.7 reports a failure as
// error_occurred, later versions as skipped.
template <class AnyRun>
std::string reason_of(const AnyRun& run) {
  if constexpr (requires { run.error_occurred; })
    return run.error_occurred ? "failed: " + run.error_message : "";
  else
    return run.skipped ? "failed: " + run.skip_message : "";
}

class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  bool ReportContext(const Context&) override {
    out_ << "# dpbench-micro: float32, 1 thread a rank, verified before timing. time: of a call, mean over iterations "
            "and ranks.\n"
            "# algbw = size / time; busbw = algbw x 2(n-1)/n for allreduce, (n-1)/n for reduce_scatter and allgather, "
            "1 for\n"
            "# broadcast: the rate that each link must carry, for any world.\n";
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) run.counters.contains("busbw_gb_s") ? collective(run) : other(run);
    out_.flush();
  }

  void Finalize() override {
    if (bandwidths_ > 0) line("# Avg bus bandwidth    : %g GB/s over %d lines\n", sum_ / bandwidths_, bandwidths_);
  }

 private:
  template <class... Values>
  void line(const char* form, Values... values) {
    char text[400];
    std::snprintf(text, sizeof text, form, values...);
    out_ << text;
  }

  void collective(const Run& run) {
    const std::string name = run.benchmark_name(), block = name.substr(0, name.rfind("/bytes:"));
    if (block != block_) {
      out_ << "\n# " << block
           << "\n#       size         count    type   redop    root      time     algbw     busbw  #wrong\n"
           << "#        (B)    (elements)                               (us)    (GB/s)    (GB/s)\n";
      block_ = block;
    }
    const bool reduces = block.starts_with("allreduce") || block.starts_with("reduce");
    const auto value = [&](const char* key) { return static_cast<double>(run.counters.at(key)); };
    // The table's "count" column shows the elements per rank, which are fewer than the whole tensor's for some
    // collectives.
    const bool in_parts = block.starts_with("allgather") || block.starts_with("reduce_scatter");
    const int64_t elements = static_cast<int64_t>(value("bytes")) / 4;
    const int64_t world = std::stoll(block.substr(block.rfind(':') + 1));
    line("%12.0f  %12lld  %6s  %6s  %6s  %8.2f  %8.4f  %8.4f  %6.0f\n", value("bytes"),
         static_cast<long long>(elements / (in_parts ? world : 1)), "float", reduces ? "sum" : "none",
         block.starts_with("broadcast") ? "0" : "-1", value("time_us"), value("algbw_gb_s"), value("busbw_gb_s"),
         value("wrong"));
    sum_ += value("busbw_gb_s");
    ++bandwidths_;
  }

  void other(const Run& run) {
    const std::string reason = reason_of(run);
    if (!reason.empty()) return line("# %s %.300s\n", run.benchmark_name().c_str(), reason.c_str());
    if (block_ != "other")
      out_ << "\n# other                                               time ("
           << benchmark::GetTimeUnitString(run.time_unit) << ")  counters\n";
    block_ = "other";
    line("%-50s  %12.2f", run.benchmark_name().c_str(), run.GetAdjustedRealTime());
    for (const auto& [name, counter] : run.counters) line("  %s=%.4g", name.c_str(), static_cast<double>(counter));
    out_ << "\n";
  }

  std::ostream& out_;
  std::string block_;
  double sum_ = 0;
  int bandwidths_ = 0;
};

}  // namespace

std::unique_ptr<benchmark::BenchmarkReporter> table_reporter(std::ostream& out) { return std::make_unique<Table>(out); }

}  // namespace dpbench::micro
