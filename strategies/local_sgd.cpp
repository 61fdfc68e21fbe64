// The strategy "local-sgd": each rank trains on its own samples, and the ranks average their parameters every few
// steps.
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/parts/flat.h"
#include "strategies/api/parts/trained.h"

namespace dpbench {
namespace {

int64_t interval_of(const Params& params) {
  const int64_t every = params.integer("average_every");
  if (every < 1) throw UsageError("local-sgd.average_every=" + params.text("average_every") + " must be 1 or more");
  return every;
}

// Returns the traffic of local-sgd in one step. Ranks all-reduce their parameters only in the last step of each
// interval. A single rank has no traffic.
std::optional<std::vector<Traffic>> local_sgd_traffic(const TrafficQuery& query) {
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1 && (query.step + 1) % interval_of(query.params) == 0)
    all.push_back({"dp", "allreduce", flat_bytes(query)});
  return all;
}

class LocalSgd : public TrainedStrategy {
 public:
  explicit LocalSgd(const Setup& setup)
      : TrainedStrategy(setup),
        group_(setup.mesh.group()),
        every_(interval_of(setup.params)),
        parameters_(insides_->own->trainable_tensors("local-sgd")) {
    parameters_.adopt(trainable());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error("local-sgd: this rank has no samples in step " + std::to_string(step));
    const StepResult result = passes(step, micro, phases);
    apply_gradients(step, phases);
    diverged_ = true;
    if ((step + 1) % every_ == 0) average(phases);
    return result;
  }

  // If training ended within an interval, averages the parameters once more, so that they are equal on all ranks at the
  // end.
  void finish() override {
    Phases untimed;
    if (diverged_) average(untimed);
  }

 private:
  void average(Phases& phases) {
    diverged_ = false;
    if (group_->getSize() == 1) return;
    const at::NoGradGuard no_grad;
    phases.enter(Phase::communication);
    for (at::Tensor buffer : parameters_.buffers()) {
      std::vector<at::Tensor> sum = {buffer.div_(group_->getSize())};
      group_->allreduce(sum)->wait();
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t every_;
  bool diverged_ = false;  // true if ranks have stepped since the last average
  Flat parameters_;
};

const RegisterStrategy local_sgd{
    {.name = "local-sgd",
     .summary = "each rank steps with its own gradient; parameters are averaged every few steps",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::local,
     .buffers = Buffers::local,
     .params = {{"average_every", "8", "number of steps between two averages of the ranks' parameters",
                 "integer from 1"}},
     .settings = {.short_interval = {{"average_every", "2"}}},
     .make = make<LocalSgd>,
     .traffic = local_sgd_traffic,
     .average_every = 8,
     .promise = [](StrategyInfo& info, const Params& params) { info.average_every = interval_of(params); },
     .variants = {{"every_step", {{"average_every", "1"}}}, {"every_third", {{"average_every", "3"}}}}}};

}  // namespace
}  // namespace dpbench
