#include "harness/front/run/progress/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

#include "harness/front/text/print.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

size_t columns() { return terminal_columns(STDERR_FILENO, 20, 80); }

std::string bar(double part) {
  constexpr int bar_width = 14;
  const int filled = static_cast<int>(std::clamp(part, 0.0, 1.0) * bar_width);
  return "[" + std::string(static_cast<size_t>(filled), '#') +
         std::string(static_cast<size_t>(bar_width - filled), '.') + "]";
}

std::string counted(int done, int all) { return std::to_string(done) + "/" + std::to_string(all) + " · "; }

}  // namespace

ProgressStyle progress_style(const MeasuringOptions& options, bool terminal, const char* term) {
  if (options.quiet || options.progress == ProgressChoice::none) return ProgressStyle::none;
  const bool moves = terminal && term && *term && std::string(term) != "dumb";
  return options.progress == ProgressChoice::automatic && moves ? ProgressStyle::moving : ProgressStyle::plain;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char text[32];
  if (whole < 60)
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(whole));
  else if (whole < 3600)
    std::snprintf(text, sizeof text, "%lldm%02llds", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%lldh%02lldm", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60));
  return text;
}

ProgressLine::ProgressLine(ProgressStyle style, bool verbose, int cases, double now, int launches)
    : style_(style), verbose_(verbose), cases_(cases), total_(cases * launches), began_(now) {}

ProgressLine::~ProgressLine() { clear(); }

double ProgressLine::share() const { return total_ > 0 ? static_cast<double>(done_) / total_ : 0; }

// Estimates the remaining time from the mean time so far of one launch (process start) of one case. Cases differ in
// length, so the estimate is fair only if each is launched equally often.
std::string ProgressLine::time_left(double now) const {
  if (done_ == 0) return "";
  return " · about " + duration_text((now - began_) / done_ * (total_ - done_)) + " left";
}

void ProgressLine::begin(const std::string& case_id, double now) {
  if (listener_) listener_->begin(case_id);
  if (style_ == ProgressStyle::moving) move(bar(share()) + " " + counted(done_, total_) + case_id + time_left(now));
}

void ProgressLine::end(const std::string& case_id, const std::string& result, double now) {
  ++done_;
  print_held();
  if (listener_) listener_->end(case_id);
  if (style_ == ProgressStyle::moving)
    move(bar(share()) + " " + counted(done_, total_) + case_id + " · " + result + time_left(now));
}

void ProgressLine::over(const std::string& case_id, const std::string& result, double now) {
  ++over_;
  if (listener_) listener_->over(case_id);
  if (style_ == ProgressStyle::plain) line(counted(over_, cases_) + case_id + " · " + result + time_left(now));
}

void ProgressLine::state(const std::string& case_id, const std::string& text) {
  if (style_ == ProgressStyle::moving) move(bar(share()) + " " + counted(done_, total_) + case_id + " · " + text);
}

void ProgressLine::part(double done, const std::string& text) {
  if (style_ == ProgressStyle::moving) move(bar(done) + " " + text);
}

void ProgressLine::clear() {
  if (shown_) std::cerr << "\r\x1B[K" << std::flush;
  shown_ = false;
}

void ProgressLine::note(const std::string& text) {
  if (verbose_) line(text);
}

void ProgressLine::warn_later(const std::string& text) { held_warnings_.push_back(text); }

void ProgressLine::print_held() {
  for (const auto& held : std::exchange(held_warnings_, {})) warning(held);
}

void ProgressLine::say(const std::string& text) {
  if (style_ != ProgressStyle::none) line("dpbench: " + text);
}

void ProgressLine::warning(const std::string& text) {
  if (listener_) listener_->problem(text);
  say(text);
}

void ProgressLine::error(const std::string& text) {
  if (listener_) listener_->problem(text);
  line("dpbench: " + text);
}

void ProgressLine::move(const std::string& text) {
  std::cerr << "\r\x1B[K" << one_line(text, columns() - 1) << std::flush;
  shown_ = true;
}

void ProgressLine::line(const std::string& text) {
  std::cerr << (shown_ ? "\r\x1B[K" : "") << sanitised(text) << '\n' << std::flush;
  shown_ = false;
}

}  // namespace dpbench
