#include "harness/micro/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/micro/inputs.h"
#include "harness/micro/pair_table.h"
#include "harness/micro/team.h"

namespace dpbench::micro {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

// Returns why a benchmark has no times, or an empty string if it has. Google Benchmark 1.7 reports a failure as
// error_occurred, later versions as skipped.
template <class AnyRun>
std::string reason_of(const AnyRun& run) {
  const auto reason = [](const std::string& error) {
    return (is_unsupported(error) ? "skipped: " : "failed: ") + error;
  };
  if constexpr (requires { run.error_occurred; })
    return run.error_occurred ? reason(run.error_message) : "";
  else
    return run.skipped ? reason(run.skip_message) : "";
}

class Table : public benchmark::BenchmarkReporter {
 public:
  Table(std::ostream& out, std::vector<std::string> hosts) : out_(out), pairs_(std::move(hosts)) {}

  bool ReportContext(const Context&) override {
    out_ << folded(
        "# 1 thread a rank. time: of a call, mean over iterations and ranks. #wrong:\n"
        "# elements of all ranks that differ from the exact result, counted before\n"
        "# timing. algbw = size / time; busbw = algbw x 2(n-1)/n for allreduce,\n"
        "# (n-1)/n for reduce_scatter, allgather, gather, scatter and alltoall, else 1:\n"
        "# the rate that each link must carry, for any world. of copy: busbw / rate of\n"
        "# a copy of this size by all ranks at once, measured just before. of link, for\n"
        "# ranks on several hosts or GPUs: busbw / rate of the slowest link from a rank\n"
        "# to the next, measured without the backend: of a plain TCP connection between\n"
        "# hosts, or of a copy between GPUs.\n");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.counters.contains("busbw_gb_s"))
        collective(run);
      else if (run.run_type == Run::RT_Iteration && run.counters.contains("bandwidth_gb_s"))
        pairs_.add(run);
      else
        other(run);
    out_.flush();
  }

  void Finalize() override {
    pairs_.print(out_);
    if (bandwidths_ > 0) line("# Avg bus bandwidth    : %g GB/s over %d lines\n", sum_ / bandwidths_, bandwidths_);
  }

 private:
  template <class... Values>
  void line(const char* form, Values... values) {
    char text[400];
    std::snprintf(text, sizeof text, form, values...);
    out_ << text;
  }

  // Prints a row of the table of collectives. Its columns have fixed widths, because a row is printed as soon as its
  // benchmark ends, and every row must fold alike.
  void row(std::vector<std::string> cells) {
    constexpr std::array<size_t, 10> widths = {12, 12, 8, 7, 4, 10, 9, 9, 7, 6};
    for (size_t i = 0; i < widths.size(); ++i)
      cells.at(i).insert(0, widths[i] - std::min(widths[i], cells[i].size()), ' ');
    out_ << folded_rows({cells}, std::vector<bool>(cells.size(), true), fold_width()).front() << "\n";
  }

  // Returns a counter of a benchmark times `scale` as text, or "-" if the benchmark lacks it.
  static std::string cell(const Run& run, const char* counter, const char* form, double scale = 1) {
    const auto found = run.counters.find(counter);
    if (found == run.counters.end()) return "-";
    char text[40];
    std::snprintf(text, sizeof text, form, found->second * scale);
    return text;
  }

  void collective(const Run& run) {
    const std::string name = run.benchmark_name(), block = name.substr(0, name.rfind("/bytes:"));
    const bool is_linked = run.counters.contains("of_link");
    if (block != block_) {
      out_ << "\n# " << block << "\n";
      row({"#       size", "count", "type", "redop", "root", "time", "algbw", "busbw",
           is_linked ? "of link" : "of copy", "#wrong"});
      row({"#        (B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", ""});
      block_ = block;
    }
    const bool reduces = block.starts_with("allreduce") || block.starts_with("reduce");
    const bool has_root = block.starts_with("broadcast") || block.starts_with("reduce/") ||
                          block.starts_with("gather/") || block.starts_with("scatter/");
    const ElementName dtype = parse_name<ElementName>(part_of(name, "dtype", "f32")).value();
    row({cell(run, "bytes", "%.0f"), cell(run, "count", "%.0f"), element_type(dtype).shown,
         reduces ? part_of(name, "op", "sum") : "none", has_root ? "0" : "-1", cell(run, "time_us", "%.2f"),
         cell(run, "algbw_gb_s", "%.4f"), cell(run, "busbw_gb_s", "%.4f"),
         cell(run, is_linked ? "of_link" : "of_copy", "%.0f %%", 100), cell(run, "wrong", "%.0f")});
    if (!run.counters.contains("of_copy")) return;
    sum_ += run.counters.at("busbw_gb_s");
    ++bandwidths_;
  }

  void other(const Run& run) {
    const std::string reason = reason_of(run);
    if (!reason.empty()) {
      out_ << folded("# " + run.benchmark_name() + " " + reason.substr(0, 300) + "\n");
      return;
    }
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
  PairTable pairs_;
  double sum_ = 0;
  int bandwidths_ = 0;
};

}  // namespace

std::unique_ptr<benchmark::BenchmarkReporter> table_reporter(std::ostream& out, std::vector<std::string> hosts) {
  return std::make_unique<Table>(out, std::move(hosts));
}

}  // namespace dpbench::micro
