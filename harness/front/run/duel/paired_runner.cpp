#include "harness/front/run/duel/paired_runner.h"

#include <algorithm>
#include <utility>

#include "harness/report/figures/disturbance.h"

namespace dpbench {
namespace {

bool ran(const CaseOutcome& outcome) { return outcome.kind == CaseOutcome::Kind::ran && !outcome.ranks.empty(); }

bool is_interrupted(const CaseOutcome& outcome) { return outcome.kind == CaseOutcome::Kind::interrupted; }

void append(std::vector<int64_t>& all, const std::vector<int64_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

// The blocks of one launch of a case.
struct PairedRunner::Series {
  const CaseSpec* reference = nullptr;
  int64_t steps = 0, reference_steps = 0;         // steps per block
  size_t tried = 0;                               // pairs of blocks run so far
  std::vector<size_t> kept{};                     // numbers of the case's blocks that count; block 0 is the warm-up
  std::vector<std::vector<RankRecord>> blocks{};  // the ranks' records of each block that counts
  std::vector<double> reference_ns{};             // step times of the reference, one for each block that counts
  double spent_s = 0;
  std::string reference_fault{};
  LoadWatch others;
};

PairedRunner::PairedRunner(CaseRunner& cases, CaseRunner& references, ReferenceOf reference_of, const Rules& rules)
    : cases_(cases),
      references_(references),
      reference_of_(std::move(reference_of)),
      rules_(rules),
      random_(rules.seed) {}

CaseOutcome PairedRunner::block(CaseRunner& runner, const CaseSpec& spec, Json command, int64_t steps) {
  if (const int signal = runner.pending_signal()) return {.kind = CaseOutcome::Kind::interrupted, .signal = signal};
  command["check"] = false;
  // Blocks of the reference that run beside another case have no audit, because the reference is audited in its own
  // case.
  if (&runner == &references_) command["sampling"]["audit"] = false;
  if (steps > 0) command["sampling"]["steps"] = steps;
  return runner.run(spec, command);
}

// Runs one block of the case and one of its reference (if it has one), in random order. Returns the outcome that ends
// the case, if any.
std::optional<CaseOutcome> PairedRunner::pair(const CaseSpec& spec, const Json& command, Series& series) {
  const bool reference_first = random_() % 2 == 0;
  CaseOutcome own, other;
  const auto run_reference = [&] {
    if (!series.reference) return;
    other = block(references_, *series.reference, command, series.reference_steps);
    if (ran(other) || is_interrupted(other)) return;
    series.reference_fault = other.reason;
    series.reference = nullptr;
    loaded_.clear();
  };
  if (reference_first) run_reference();
  if (is_interrupted(other)) return other;
  own = block(cases_, spec, command, series.steps);
  if (!ran(own)) return own;
  if (!reference_first) run_reference();
  if (is_interrupted(other)) return other;
  ++series.tried;
  series.spent_s += static_cast<double>(slowest_ns(own.ranks)) * 1e-9;
  const bool disturbed = starved(spec, own.ranks, rules_.cores) ||
                         (series.reference && starved(*series.reference, other.ranks, rules_.cores));
  if (disturbed && !rules_.keep_disturbed && !quiet(series.others.load())) return std::nullopt;
  if (series.reference)
    series.reference_ns.push_back(static_cast<double>(slowest_ns(other.ranks)) /
                                  static_cast<double>(other.ranks.front().steps_per_sample));
  series.blocks.push_back(std::move(own.ranks));
  series.kept.push_back(series.tried);
  return std::nullopt;
}

// Runs the reference's first block, unless the reference is already set up. This block warms up and determines the
// number of steps of later blocks; it is not counted. Returns the outcome that ends the case, if any.
std::optional<CaseOutcome> PairedRunner::set_up_reference(const Json& command, Series& series) {
  if (!series.reference) return std::nullopt;
  if (loaded_ != series.reference->id) {
    loaded_.clear();
    CaseOutcome first = block(references_, *series.reference, command, 0);
    if (is_interrupted(first)) return first;
    if (!ran(first)) {
      series.reference_fault = first.reason;
      series.reference = nullptr;
      return std::nullopt;
    }
    loaded_ = series.reference->id;
    loaded_steps_ = first.ranks.front().steps_per_sample;
  }
  series.reference_steps = loaded_steps_;
  return std::nullopt;
}

// Returns the number of blocks to measure for a case. `first` holds the ranks' records of its first block.
int PairedRunner::blocks_of(const Sampling& sampling, const std::vector<RankRecord>& first) const {
  const bool is_long = sampling.steps == 0 && first.front().steps_per_sample == 1 &&
                       static_cast<double>(slowest_ns(first)) > 1e9 * sampling.min_sample_s;
  return rules_.long_blocks > 0 && is_long ? std::min(rules_.long_blocks, sampling.samples) : sampling.samples;
}

CaseOutcome PairedRunner::run(const CaseSpec& spec, const Json& command) {
  // The first block warms up and determines the number of steps of later blocks. It does not count.
  CaseOutcome outcome = cases_.run(spec, command);
  if (!ran(outcome)) return outcome;
  const Sampling sampling = sampling_from_json(command.at("sampling"));
  Series series{.reference = reference_of_(spec),
                .steps = outcome.ranks.front().steps_per_sample,
                .others = LoadWatch(rules_.cpu_times)};
  if (auto ended = set_up_reference(command, series)) return *std::move(ended);
  const auto wanted = static_cast<size_t>(blocks_of(sampling, outcome.ranks));
  bool out_of_time = false;
  while (series.blocks.size() < wanted && series.tried < 2 * wanted && !out_of_time) {
    if (auto ended = pair(spec, command, series)) {
      ended->checks = std::move(outcome.checks);
      return *std::move(ended);
    }
    out_of_time = series.spent_s > sampling.max_time_s;
  }
  const auto others_count = [&] { return !rules_.keep_disturbed && !quiet(series.others.load()); };
  CaseOutcome end = cases_.run(spec, {{"do", name_of(Order::end)},
                                      {"sampling", command.at("sampling")},
                                      {"last_steps", command.at("last_steps")},
                                      {"blocks", series.kept},
                                      {"retake", others_count()}});
  // In the list of checks, those made before timing come first, then the audits of all blocks.
  std::swap(end.checks, outcome.checks);
  end.checks.insert(end.checks.end(), outcome.checks.begin(), outcome.checks.end());
  end.means = std::move(outcome.means);
  end.versions = std::move(outcome.versions);
  if (!ran(end)) return end;
  if (profile_starved(spec, end.ranks, rules_.cores) && others_count()) drop_profile_times(end.ranks);
  for (const BlockSeries numbers : block_series())
    for (size_t rank = 0; rank < end.ranks.size(); ++rank)
      for (const auto& one : series.blocks) append(end.ranks[rank].*numbers, one[rank].*numbers);
  if (series.reference_ns.size() == series.blocks.size()) end.reference_ns = std::move(series.reference_ns);
  end.disturbed_blocks = static_cast<int>(series.tried - series.blocks.size());
  auto& warnings = end.ranks.front().warnings;
  if (out_of_time && series.blocks.size() < wanted)
    warnings.push_back("stopped by --max-time after " + std::to_string(series.blocks.size()) + " of " +
                       std::to_string(wanted) + " blocks");
  if (!series.reference_fault.empty())
    warnings.push_back("not measured in pairs: the reference failed: " + series.reference_fault);
  return end;
}

std::vector<std::string> PairedRunner::end_launch() {
  loaded_.clear();
  std::vector<std::string> complaints = references_.end_group();
  for (auto& complaint : complaints) complaint = "reference: " + complaint;
  return complaints;
}

}  // namespace dpbench
