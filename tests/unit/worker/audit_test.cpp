// Tests audits of a strategy in this process: a strategy that leaves out updates some steps after a call of an accessor
// fails, and the oracle computes each audited step once.
#include "harness/worker/measure/audit/audit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/conform/scenario/wrapped_workload.h"
#include "harness/worker/steps/case_setup.h"
#include "tests/support/around.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

// The workload random-linear, which counts how often its loss is computed: once per forward pass.
class CountedLosses : public WrappedWorkload {
 public:
  static inline int64_t in_float32 = 0, in_float64 = 0;

  explicit CountedLosses(std::unique_ptr<Workload> inner) : WrappedWorkload(*inner), owned_(std::move(inner)) {}
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    ++(output.scalar_type() == at::kDouble ? in_float64 : in_float32);
    return inner_.loss(output, target);
  }

 private:
  std::unique_ptr<Workload> owned_;
};

const RegisterWorkload counted_losses{
    {.name = "counted-losses", .summary = "counts losses", .make = [](const WorkloadOptions& options) {
       return std::make_unique<CountedLosses>(workload_registry().at("random-linear").make(options));
     }}};

// A strategy that computes correctly in the first `honest` steps after a call of parameters(), then returns losses
// without updates.
class LosesPatience : public Around {
 public:
  explicit LosesPatience(const Setup& setup)
      : Around(with_defaults("cpu", setup)), workload_(setup.workload), honest_(setup.params.integer("honest")) {}

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (++since_look_ <= honest_) return inner_->step(step, micro, phases);
    const at::Tensor output = inner_->forward(micro[0]);
    return {output, workload_.loss(output, micro[0].target)};
  }
  NamedTensors parameters() override {
    since_look_ = 0;
    return inner_->parameters();
  }

 private:
  const Workload& workload_;
  int64_t honest_, since_look_ = 0;
};

const RegisterStrategy loses_patience{{.name = "loses-patience",
                                       .summary = "right for some steps after a call of an accessor",
                                       .parallelism = Parallelism::single,
                                       .params = {{"honest", "1000", "number of right steps after a call"}},
                                       .make = make<LosesPatience>}};

// Audits the end of a launch of 25 steps. Returns the result of the audit.
CheckRow last_audit(int64_t honest) {
  CaseSpec spec;
  spec.strategy = "loses-patience";
  spec.params = {{"honest", std::to_string(honest)}};
  spec.workload = "counted-losses";
  spec.scaling = Scaling::strong;
  spec.batch = 10;
  Variables alone;
  alone.backend = "none";
  alone.device = Device::cpu;
  const Group group(alone);
  Pulse pulse("", 0);
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  const auto workload = workload_of(spec, "");
  const Setup setup = setup_of(spec, info, *workload, group);
  StepSource source(*workload, spec, info, 0);
  const auto strategy = info.make(setup);
  StepTimer timer(*strategy, source, group, pulse);
  Audit audit(spec, setup, *strategy, source, timer, group, {.samples = 1});
  timer.block(5);
  audit.look();
  timer.block(20);
  CountedLosses::in_float32 = CountedLosses::in_float64 = 0;
  audit.at_end(20);
  return audit.rows().at(0);
}

TEST(TheLastAudit, ComputesTheExpectedResultsOfEachStepOnceAndOnlyInFloat64) {
  const CheckRow row = last_audit(1000);
  EXPECT_EQ(row.status, CheckStatus::passed) << row.detail;
  EXPECT_GE(CountedLosses::in_float64, AuditPlan::least_last);
  EXPECT_LE(CountedLosses::in_float64, AuditPlan::most_last);
  EXPECT_EQ(CountedLosses::in_float32, CountedLosses::in_float64) << "the strategy's own losses alone";
  EXPECT_TRUE(mentions(row.compared, {std::to_string(CountedLosses::in_float64) + " steps"}));
}

TEST(TheLastAudit, DetectsAStrategyThatStopsUpdatingAtMostTwoStepsAfterItsParametersWereRead) {
  for (const int64_t honest : {0, 1, 2}) {
    const CheckRow row = last_audit(honest);
    EXPECT_EQ(row.status, CheckStatus::failed) << honest;
    EXPECT_NE(row.detail, "");
  }
}

}  // namespace
}  // namespace dpbench
