// "spun": the single device, which spins by the monotonic clock after every step for as long as it is told. `copy` only
// makes rows: the same case as often as it has values, for measuring the harness against itself.
#include <chrono>

#include <ATen/ATen.h>

#include "strategies/strategy.h"
#include "tests/around.h"

namespace {

using namespace dpbench;
using Clock = std::chrono::steady_clock;

class Spun : public Around {
 public:
  explicit Spun(const Setup& setup)
      : Around(strategy_registry().at("cpu").make(setup)), spin_(setup.params.integer("spin_us")) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const StepResult result = inner_->step(step, micro, phases);
    if (spin_.count() == 0) return result;
    for (const auto until = Clock::now() + spin_; Clock::now() < until;) {
    }
    return result;
  }

 private:
  std::chrono::microseconds spin_;
};

const RegisterStrategy spun{{.name = "spun",
                             .summary = "the single device, slower by a known time a step",
                             .parallelism = Parallelism::single,
                             .gradient = Gradient::gathered,
                             .buffers = Buffers::first_replica,
                             .cuda = false,
                             .params = {{"spin_us", "0", "microseconds to spin after a step"},
                                        {"copy", "1", "nothing: another value is the same case again"}},
                             .make = make<Spun>}};

}  // namespace
