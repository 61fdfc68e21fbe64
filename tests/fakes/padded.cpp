// "padded" is the strategy cpu and "padded-ddp" is ddp, both slowed by the percentage in this library's file name:
// libpadded-5.so spins after every step for 5 % of the step's time. All libpadded libraries register the same names, so
// two of them act as two builds of one strategy.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>

#include <ATen/ATen.h>

#include "strategies/api/strategy.h"
#include "tests/support/around.h"

namespace {

using namespace dpbench;
using Clock = std::chrono::steady_clock;

double percent() {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(&percent), &info) != 0 && info.dli_fname;
  const std::string file = known ? info.dli_fname : "";
  const size_t dash = file.rfind('-');
  if (dash == std::string::npos) throw UsageError("padded: name the plug-in libpadded-PERCENT.so, not " + file);
  return std::atof(file.c_str() + dash + 1);
}

class Padded : public Around {
 public:
  explicit Padded(const Setup& setup, const char* around = "cpu")
      : Around(with_defaults(around, setup)), share_(percent() / 100) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const auto start = Clock::now();
    const StepResult result = inner_->step(step, micro, phases);
    const auto end = Clock::now();
    const auto until = end + std::chrono::duration_cast<Clock::duration>((end - start) * share_);
    while (Clock::now() < until) {
    }
    return result;
  }

 private:
  double share_;
};

struct PaddedDdp : Padded {
  explicit PaddedDdp(const Setup& setup) : Padded(setup, "ddp") {}
};

const RegisterStrategy padded{{.name = "padded",
                               .summary = "the single device, slower by the percentage in its file's name",
                               .parallelism = Parallelism::single,
                               .gradient = Gradient::gathered,
                               .buffers = Buffers::first_replica,
                               .cuda = false,
                               .make = make<Padded>}};

const RegisterStrategy padded_ddp{{.name = "padded-ddp",
                                   .summary = "ddp, slower by the percentage in its file's name",
                                   .parallelism = Parallelism::ranks,
                                   .gradient = Gradient::mean_of_means,
                                   .buffers = Buffers::rank0,
                                   .cuda = false,
                                   .make = make<PaddedDdp>}};

}  // namespace
