// Where the time of a step goes. A strategy says which part it enters; what follows is charged to it until the next.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace dpbench {

enum class Phase { data, scatter, forward, backward, communication, optimizer, waiting };
inline constexpr std::array<std::string_view, 7> phase_names = {"data",          "scatter",   "forward", "backward",
                                                                "communication", "optimizer", "waiting"};

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
  }
  void leave() {
    if (!on_) return;
    charge(Clock::now());
    current_ = -1;
  }
  // Time that passed inside `from` but belongs to `to`: communication that a backward pass waited for.
  void move(Phase from, Phase to, int64_t ns) {
    total_ns_[static_cast<size_t>(from)] -= ns;
    total_ns_[static_cast<size_t>(to)] += ns;
  }
  bool on() const { return on_; }
  void switch_on(bool on) { on_ = on; }
  void clear() { total_ns_.fill(0); }
  const std::array<int64_t, phase_names.size()>& total_ns() const { return total_ns_; }

 private:
  void charge(Clock::time_point now) {
    if (current_ >= 0)
      total_ns_[static_cast<size_t>(current_)] += std::chrono::duration_cast<std::chrono::nanoseconds>(now - since_).count();
  }

  bool on_;
  int current_ = -1;
  Clock::time_point since_;
  std::array<int64_t, phase_names.size()> total_ns_{};
};

}  // namespace dpbench
