// Registers a strategy "own-talk", which prints in each step and with own-talk.crash=on ends rank 1 in step 1. The
// library prints while it is loaded, too.
#include <csignal>
#include <cstdio>
#include <iostream>

#include "strategies/api/trained.h"

namespace {

using namespace dpbench;

class OwnTalk : public TrainedStrategy {
 public:
  explicit OwnTalk(const Setup& setup)
      : TrainedStrategy(setup), rank_(setup.mesh.group()->getRank()), crashes_(setup.params.flag("crash")) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    std::cout << "cout in step " << step << '\n';
    std::printf("printf in step %d\n", static_cast<int>(step));
    std::fprintf(stderr, "stderr in step %d\n", static_cast<int>(step));
    if (crashes_ && rank_ == 1 && step == 1) {
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    const StepResult result = passes(step, micro, phases);
    apply_gradients(step, phases);
    return result;
  }

 private:
  int rank_;
  bool crashes_;
};

const bool loaded = std::puts("loaded") >= 0;
const RegisterStrategy talk{{.name = "own-talk",
                             .summary = "prints",
                             .gradient = Gradient::local,
                             .buffers = Buffers::local,
                             .params = {{"crash", "off", "on: rank 1 ends in step 1"}},
                             .make = make<OwnTalk>,
                             .average_every = 100}};

}  // namespace
