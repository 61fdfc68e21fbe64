// Tests audits of a strategy in this process: a strategy that leaves out updates some steps after a call of an accessor
// fails, and the oracle computes each audited step once.
#include "harness/worker/measure/audit/audit.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
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

// A strategy that counts the tensors that are copied between the calls of its accessors.
class CountsCopies : public Around {
 public:
  static inline std::vector<int64_t> counts;  // one count for each call of an accessor or a step

  explicit CountsCopies(const Setup& setup) : Around(with_defaults("cpu", setup)) {}
  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    count();
    return inner_->step(step, micro, phases);
  }
  NamedTensors parameters() override { return count(), inner_->parameters(); }
  NamedTensors buffers() override { return count(), inner_->buffers(); }
  NamedTensors state() override { return count(), inner_->state(); }
  static void copied() { ++copies_; }

 private:
  static void count() { counts.push_back(std::exchange(copies_, 0)); }
  static inline int64_t copies_ = 0;
};

const RegisterStrategy counts_copies{{.name = "counts-copies",
                                      .summary = "counts copies between the calls of its accessors",
                                      .parallelism = Parallelism::single,
                                      .make = make<CountsCopies>}};

// A strategy that is timed and audited in this process.
class Launch {
 public:
  explicit Launch(const std::string& strategy, const ParamValues& params = {})
      : spec_(spec_of(strategy, params)),
        group_(alone()),
        workload_(workload_of(spec_, "")),
        setup_(setup_of(spec_, info(), *workload_, group_)),
        source_(*workload_, spec_, info(), 0),
        strategy_(info().make(setup_)),
        timer(*strategy_, source_, group_, pulse_),
        audit(spec_, setup_, *strategy_, source_, timer, group_, {.samples = 1}) {}

 private:
  static CaseSpec spec_of(const std::string& strategy, const ParamValues& params) {
    CaseSpec spec;
    spec.strategy = strategy;
    spec.params = params;
    spec.workload = "counted-losses";
    spec.scaling = Scaling::strong;
    spec.batch = 10;
    return spec;
  }
  static Variables alone() {
    Variables variables;
    variables.backend = "none";
    variables.device = Device::cpu;
    return variables;
  }
  const StrategyInfo& info() const { return strategy_registry().at(spec_.strategy); }

  CaseSpec spec_;
  Group group_;
  Pulse pulse_{"", 0};
  std::unique_ptr<Workload> workload_;
  Setup setup_;
  StepSource source_;
  std::unique_ptr<Strategy> strategy_;

 public:
  StepTimer timer;
  Audit audit;
};

// Audits the end of a launch of 25 steps. Returns the result of the audit.
CheckRow last_audit(int64_t honest) {
  Launch launch("loses-patience", {{"honest", std::to_string(honest)}});
  launch.timer.block(5);
  launch.audit.look();
  launch.timer.block(20);
  CountedLosses::in_float32 = CountedLosses::in_float64 = 0;
  launch.audit.at_end(20, /*always=*/true);
  return launch.audit.rows().at(0);
}

// Returns the numbers of copied tensors before each accessor and the first step, if `begin` begins a block or an audit.
template <class Begin>
std::vector<int64_t> copies_before_a_step(Launch& launch, Begin begin) {
  launch.timer.block(1);
  CountsCopies::counts.clear();
  begin();
  std::vector<int64_t> counts = CountsCopies::counts;
  counts.resize(4);
  return counts;
}

TEST(TheLastAudit, ComputesTheExpectedResultsOfEachStepOnceAndOnlyInFloat64) {
  const CheckRow row = last_audit(1000);
  EXPECT_EQ(row.status, CheckStatus::passed) << row.detail;
  EXPECT_GE(CountedLosses::in_float64, AuditPlan::least_last);
  EXPECT_LE(CountedLosses::in_float64, AuditPlan::most_last);
  EXPECT_EQ(CountedLosses::in_float32, CountedLosses::in_float64) << "the strategy's own losses alone";
  EXPECT_TRUE(mentions(row.compared, {std::to_string(CountedLosses::in_float64) + " steps"}));
}

TEST(Audits, AreNotToldFromBlocksByTheCopiesBetweenTheirReads) {
  Launch launch("counts-copies");
  const auto callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        if (std::string_view(call.name()) == "aten::copy_") CountsCopies::copied();
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const auto block = copies_before_a_step(launch, [&] {
    launch.audit.pretend(1);
    launch.timer.block(1);
  });
  const auto audit = copies_before_a_step(launch, [&] { launch.audit.at_end(1, /*always=*/true); });
  at::removeCallback(callback);
  EXPECT_GT(audit.at(1), 0) << "parameters are copied before buffers() is called";
  EXPECT_EQ(block, audit);
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
