// Measures how long each phase of a training step takes. A strategy calls enter(phase); the time until the next enter()
// or leave() is charged to this phase. A strategy may also name the action that it runs, for messages about a crash.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace dpbench {

// The phases of a step. `graph` is the replay of a step recorded as a CUDA graph, which cannot be split into phases.
enum class Phase { data, scatter, forward, backward, communication, optimizer, waiting, graph };
inline constexpr std::array<std::string_view, 8> phase_names = {"data",          "scatter",   "forward", "backward",
                                                                "communication", "optimizer", "waiting", "graph"};

// Interface of an object that is told when a step enters or leaves a phase. Only untimed repetitions of the steps call
// it.
class PhaseListener {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~PhaseListener() = default;
  virtual void entered(Phase, Time) {}
  virtual void left(Time) {}
  // Called when Phases::move() charges the time from .. to of the current phase to the given phase instead.
  virtual void moved(Phase, Time /*from*/, Time /*to*/) {}
};

class Phases {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Phases(bool on = false) : on_(on) {}

  void enter(Phase phase) {
    if (!on_) return;
    const auto now = Clock::now();
    begin(now, static_cast<int>(phase));
    if (listener_) listener_->entered(phase, now);
  }
  void leave() {
    if (!on_) return;
    const auto now = Clock::now();
    begin(now, -1);
    if (listener_) listener_->left(now);
  }
  // Charges a time span of the current phase to the phase `to` instead; for example, a backward pass charges the time
  // that it waited for communication. Ignores time before the current phase began, and time that was already charged to
  // another phase.
  void move(Phase to, Clock::time_point from, Clock::time_point until) {
    from = std::max(from, since_);
    if (!on_ || current_ < 0 || current_ == static_cast<int>(to) || until <= from) return;
    auto begin = from;
    for (const Span& known : moved_) {
      shift(to, begin, std::min(known.from, until));
      begin = std::max(begin, known.until);
    }
    shift(to, begin, until);
    const auto later = [](const Span& span, Clock::time_point at) { return span.from < at; };
    moved_.insert(std::lower_bound(moved_.begin(), moved_.end(), from, later), {from, until});
  }
  // Names the action that the step runs from now on, e.g. "1F3 (stage 1, micro-batch 3)"; empty: none. dpbench quotes
  // up to 40 bytes of the name if the process dies or hangs.
  void name_action(std::string_view action) const {
    if (publish_action_) publish_action_(action);
  }
  void publish_actions(std::function<void(std::string_view)> publish) { publish_action_ = std::move(publish); }
  bool on() const { return on_; }
  Clock::time_point since() const { return since_; }  // start time of the current phase
  int current() const { return current_; }            // number of the current phase; -1 if no phase is active
  void switch_on(bool on) { on_ = on; }
  void listen(PhaseListener* listener) { listener_ = listener; }
  void clear() { total_ns_.fill(0); }
  const std::array<int64_t, phase_names.size()>& total_ns() const { return total_ns_; }

 private:
  static int64_t ns(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }
  void begin(Clock::time_point now, int part) {
    if (current_ >= 0) total_ns_[static_cast<size_t>(current_)] += ns(now - since_);
    current_ = part;
    since_ = now;
    moved_.clear();
  }
  void shift(Phase to, Clock::time_point from, Clock::time_point until) {
    if (until <= from) return;
    total_ns_[static_cast<size_t>(current_)] -= ns(until - from);
    total_ns_[static_cast<size_t>(to)] += ns(until - from);
    if (listener_) listener_->moved(to, from, until);
  }

  struct Span {
    Clock::time_point from, until;
  };

  bool on_;
  int current_ = -1;
  Clock::time_point since_;
  std::vector<Span> moved_;  // time spans of the current phase that were charged to another phase, sorted by start
  PhaseListener* listener_ = nullptr;
  std::function<void(std::string_view)> publish_action_;
  std::array<int64_t, phase_names.size()> total_ns_{};
};

}  // namespace dpbench
