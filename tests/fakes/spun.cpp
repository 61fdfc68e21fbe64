// "spun" is the strategy cpu with an extra spin of spin_us after every step. Different values of `copy` make identical
// cases, to measure the harness against itself. "late-ddp" is ddp with a spin on rank 1 only. Both strategies report
// their step times without the spin, by the harness's clock (steady_clock).
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <optional>

#include <ATen/ATen.h>

#include "strategies/api/strategy.h"
#include "tests/support/around.h"

namespace {

using namespace dpbench;
using Clock = std::chrono::steady_clock;

// Ring buffer of the latest step times.
class Times {
 public:
  void add(Clock::duration time) {
    ns_[count_++ % ns_.size()] = std::chrono::duration<double, std::nano>(time).count();
  }
  // Returns the step times, oldest first.
  std::vector<double> all() const {
    std::vector<double> times;
    for (size_t at = count_ - std::min(count_, ns_.size()); at < count_; ++at) times.push_back(ns_[at % ns_.size()]);
    return times;
  }

 private:
  std::array<double, 900> ns_{};  // room for the 900 steps of the longest case in tests/programs/measure_test.py
  size_t count_ = 0;
};

struct StepTimes {
  Times step, again;
};
StepTimes times_of_previous;

class Spun : public Around {
 public:
  explicit Spun(const Setup& setup, const char* around = "cpu")
      : Around(with_defaults(around, setup)), spin_(setup.params.integer("spin_us")) {}
  ~Spun() override { times_of_previous = times_; }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const auto begin = Clock::now();
    StepResult result = inner_->step(step, micro, phases);
    auto end = Clock::now();
    times_.step.add(end - begin);
    if (again_) {
      result = inner_->step(step, micro, phases);
      const auto ended = Clock::now();
      times_.again.add(ended - end);
      end = ended;
    }
    if (spin_.count() > 0)
      for (const auto until = end + spin_; Clock::now() < until;) {
      }
    return result;
  }

  // Returns the step times of the strategy object before this one: the harness makes a new object to profile after the
  // timed steps.
  std::map<std::string, std::vector<double>> figures() override {
    return {{"timed_step_ns", times_of_previous.step.all()}, {"timed_again_ns", times_of_previous.again.all()}};
  }

 protected:
  std::chrono::microseconds spin_;
  bool again_ = false;

 private:
  StepTimes times_;
};

// As long as an object of this class exists, the calling thread is pinned to its current core, and another process
// spins on that core.
class Rival {
 public:
  Rival() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(::sched_getcpu(), &core);
    ::sched_setaffinity(0, sizeof core, &core);
    pid_ = ::fork();
    if (pid_ == 0)
      for (volatile bool busy = true; busy;) {
      }
  }
  ~Rival() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::sched_setaffinity(0, sizeof before_, &before_);
  }
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;

 private:
  cpu_set_t before_{};
  pid_t pid_;
};

class SpunAlone : public Spun {
 public:
  explicit SpunAlone(const Setup& setup) : Spun(setup) {
    again_ = setup.params.flag("again");
    if (!setup.params.flag("rival")) return;
    static int made = 0;
    std::cerr << "object " << ++made << "\n";
    // Only the second strategy object gets a rival: the harness makes it for the profiled steps, after the timed ones.
    if (made == 2) rival_.emplace();
  }

 private:
  std::optional<Rival> rival_;
};

class LateDdp : public Spun {
 public:
  explicit LateDdp(const Setup& setup) : Spun(setup, "ddp") {
    if (setup.mesh.group()->getRank() != 1) spin_ = {};
  }
};

const RegisterStrategy spun{{.name = "spun",
                             .summary = "the single device, slower by a known time a step",
                             .parallelism = Parallelism::single,
                             .gradient = Gradient::gathered,
                             .buffers = Buffers::first_replica,
                             .cuda = false,
                             .params = {{"spin_us", "0", "microseconds to spin after a step"},
                                        {"again", "off", "a second step directly after the first, before spinning"},
                                        {"rival", "off", "a rival takes the core of the second object's steps"},
                                        {"copy", "1", "no effect: other values repeat the case"}},
                             .make = make<SpunAlone>}};

const RegisterStrategy late_ddp{{.name = "late-ddp",
                                 .summary = "ddp with rank 1 late after every step",
                                 .parallelism = Parallelism::ranks,
                                 .gradient = Gradient::mean_of_means,
                                 .buffers = Buffers::rank0,
                                 .cuda = false,
                                 .params = {{"spin_us", "0", "microseconds that rank 1 spins after a step"}},
                                 .make = make<LateDdp>}};

}  // namespace
