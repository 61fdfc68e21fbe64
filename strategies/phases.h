// Where the time of a step goes. A strategy says which part it enters; what follows is charged to it until the next.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace dpbench {

// graph: a recorded step, which cannot be taken apart.
enum class Phase { data, scatter, forward, backward, communication, optimizer, waiting, graph };
inline constexpr std::array<std::string_view, 8> phase_names = {"data",          "scatter",   "forward", "backward",
                                                                "communication", "optimizer", "waiting", "graph"};

// Who is told of every part as it goes by, in an untimed repeat.
class PhaseListener {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~PhaseListener() = default;
  virtual void entered(Phase, Time) {}
  virtual void left(Time) {}
  // Found out later: this time inside another part belongs to `phase`.
  virtual void moved(Phase, Time /*from*/, Time /*to*/) {}
};

class Phases {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Phases(bool on = false) : on_(on) {}

  void enter(Phase phase) {
    if (!on_) return;
    const auto now = Clock::now();
    charge(now);
    current_ = static_cast<int>(phase);
    since_ = now;
    if (listener_) listener_->entered(phase, now);
  }
  void leave() {
    if (!on_) return;
    const auto now = Clock::now();
    charge(now);
    current_ = -1;
    since_ = now;
    if (listener_) listener_->left(now);
  }
  // Time that passed in the present part but belongs to `to`: communication that a backward pass waited for. What lies
  // before the present part began is left where it is.
  void move(Phase to, Clock::time_point from, Clock::time_point until) {
    from = std::max(from, since_);
    if (!on_ || current_ < 0 || current_ == static_cast<int>(to) || until <= from) return;
    total_ns_[static_cast<size_t>(current_)] -= ns(until - from);
    total_ns_[static_cast<size_t>(to)] += ns(until - from);
    if (listener_) listener_->moved(to, from, until);
  }
  bool on() const { return on_; }
  Clock::time_point since() const { return since_; }  // the last border between two parts
  int current() const { return current_; }            // a Phase; -1: none
  void switch_on(bool on) { on_ = on; }
  void listen(PhaseListener* listener) { listener_ = listener; }
  void clear() { total_ns_.fill(0); }
  const std::array<int64_t, phase_names.size()>& total_ns() const { return total_ns_; }

 private:
  static int64_t ns(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }
  void charge(Clock::time_point now) {
    if (current_ >= 0) total_ns_[static_cast<size_t>(current_)] += ns(now - since_);
  }

  bool on_;
  int current_ = -1;
  Clock::time_point since_;
  PhaseListener* listener_ = nullptr;
  std::array<int64_t, phase_names.size()> total_ns_{};
};

}  // namespace dpbench
