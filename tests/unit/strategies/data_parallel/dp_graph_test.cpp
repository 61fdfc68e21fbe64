// dp with recorded forward and backward passes (dp.graph=on). A recorder for the CPU stands in for CUDA graphs: a
// replay runs the recorded function again, in float64 at the same memory addresses.
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "strategies/dp/data_parallel.h"
#include "tests/ranks/threads.h"
#include "tests/support/contains.h"
#include "tests/unit/strategies/data_parallel/replayed_memory.h"

namespace dpbench {
namespace {

struct Counts {
  std::atomic<int> recorders{0}, recordings{0}, replays{0}, active{0}, overlaps{0};
};

class CpuGraph : public StepGraph {
 public:
  CpuGraph(std::function<void()> body, Counts& counts, bool same_memory)
      : body_(std::move(body)), counts_(counts), same_memory_(same_memory) {}
  void replay() override {
    ++counts_.active, ++counts_.replays;
    {
      std::optional<ReplayedMemory::Run> run;
      if (same_memory_) run.emplace(memory_);
      body_();
    }
    --counts_.active;
  }

 private:
  ReplayedMemory memory_;
  std::function<void()> body_;
  Counts& counts_;
  bool same_memory_;
};

class CpuGraphRecorder : public StepRecorder {
 public:
  explicit CpuGraphRecorder(Counts& counts, bool same_memory = true) : counts_(counts), same_memory_(same_memory) {
    ++counts_.recorders;
  }
  bool takes_backend(const std::string&) const override { return false; }
  std::unique_ptr<StepGraph> record(const std::function<void()>& body) override {
    ++counts_.active, ++counts_.recordings;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    counts_.overlaps += counts_.active != 1;
    --counts_.active;
    return std::make_unique<CpuGraph>(body, counts_, same_memory_);
  }

 private:
  Counts& counts_;
  bool same_memory_;
};

struct Plan {
  std::string workload = "convnet";
  size_t replicas = 3;
  std::vector<int64_t> rows = {12};  // samples in step 0, 1, ...; after the last number, the list repeats
  std::string link = "auto";
  at::ScalarType dtype = at::kDouble;
  int64_t accumulate = 1;
  std::optional<double> clip_norm = {};
};

// Takes the same steps of dp with and without recording. All results and all state must agree: in float64 up to
// rounding, because a product may round differently at another memory address; in other types bit for bit. Steps of 48
// samples give equal bits, so tests of other types use only this size.
class StepPair {
 public:
  explicit StepPair(const Plan& plan)
      : plan_(plan),
        workload_(workload_registry().at(plan.workload).make({})),
        plain_(dp::make_data_parallel(setup(), {})),
        recorded_(dp::make_data_parallel(setup(), [this](at::Device) {
          return std::make_unique<CpuGraphRecorder>(counts, plan_.dtype == at::kDouble);
        })) {}

  void step(int64_t step) {
    const int64_t rows = plan_.rows[static_cast<size_t>(step) % plan_.rows.size()];
    std::vector<Batch> micro;
    for (const auto& ids : at::arange(rows).add(step * 7).remainder(workload_->samples()).chunk(plan_.accumulate)) {
      workload_->prepare(ids);
      const bool with_rows = plan_.dtype == at::kDouble && step % 3 != 1;
      micro.push_back(with_rows ? workload_->batch(ids) : Batch{{}, {}, ids});
    }
    Phases phases;
    const StepResult a = plain_->step(step, micro, phases), b = recorded_->step(step, micro, phases);
    EXPECT_TRUE(same(a.output, b.output)) << "step " << step;
    EXPECT_TRUE(same(a.loss, b.loss)) << "step " << step;
    EXPECT_FALSE(b.output.requires_grad() || b.loss.requires_grad());
    expect_equal(plain_->gradients(), recorded_->gradients(), step);
    expect_equal_state(step);
  }

  void expect_equal_state(int64_t step) {
    expect_equal(plain_->parameters(), recorded_->parameters(), step);
    expect_equal(plain_->buffers(), recorded_->buffers(), step);
    expect_equal(plain_->state(), recorded_->state(), step);
  }

  Snapshot snapshot() { return snapshot_of(*recorded_); }
  void load(const Snapshot& snapshot) { plain_->load(snapshot), recorded_->load(snapshot); }

  Counts counts;

 private:
  Setup setup() const {
    const StrategyInfo& info = strategy_registry().at("dp");
    return {.workload = *workload_,
            .devices = std::vector<at::Device>(plan_.replicas, at::Device(at::kCPU)),
            .init_seed = 3,
            .step_seed = 4,
            .dtype = plan_.dtype,
            .params = Params(info.params, {{"link", plan_.link}}, "dp"),
            .accumulate = plan_.accumulate,
            .clip_norm = plan_.clip_norm};
  }
  bool same(const at::Tensor& a, const at::Tensor& b) const {
    return plan_.dtype == at::kDouble ? at::allclose(a, b, 1e-7, 1e-9) : at::equal(a, b);
  }
  void expect_equal(const NamedTensors& a, const NamedTensors& b, int64_t step) const {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].second.defined(), b[i].second.defined()) << a[i].first << ", step " << step;
      if (!a[i].second.defined()) continue;
      EXPECT_TRUE(same(a[i].second, b[i].second)) << a[i].first << ", step " << step;
      EXPECT_EQ(a[i].second.strides(), b[i].second.strides()) << a[i].first << ", step " << step;
    }
  }

  Plan plan_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Strategy> plain_, recorded_;
};

TEST(DpGraph, ReplayEqualsThePlainStepForEachDtypeAndEachWayToMoveStateAndGradientsBetweenReplicas) {
  at::set_num_threads(1);  // with more threads, the replicas of the two strategies would compete for cores
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const char* workload :
         {"random-linear", "mnist-mlp", "convnet", "probe-unused", "probe-strided", "probe-reused"})
      for (const size_t replicas : {1U, 3U})
        for (const char* link : {"auto", "plain"}) {
          SCOPED_TRACE(std::string(workload) + " " + at::toString(dtype) + " " + std::to_string(replicas) + " " + link);
          StepPair pair({.workload = workload, .replicas = replicas, .rows = {48}, .link = link, .dtype = dtype});
          for (int64_t step = 0; step < 4; ++step) pair.step(step);
          EXPECT_EQ(pair.counts.recorders, 1) << "the replicas share a device";
          EXPECT_EQ(pair.counts.recordings, 2 * static_cast<int>(replicas)) << "forward and backward of each";
          EXPECT_EQ(pair.counts.replays, 3 * 2 * static_cast<int>(replicas)) << "all but the first step";
        }
}

TEST(DpGraph, RecordsEachBatchSizeOfEachReplicaOnce) {
  // Three replicas get pieces of 10, 10 and 10 samples in a step of 30, and of 4, 4 and 2 samples in a step of 10.
  StepPair pair({.workload = "random-linear", .rows = {30, 30, 30, 10}});
  for (int64_t step = 0; step < 12; ++step) pair.step(step);
  EXPECT_EQ(pair.counts.recordings, 3 * 2 * 2);
  EXPECT_EQ(pair.counts.replays, 3 * 2 * (8 + 2));
}

TEST(DpGraph, EqualsThePlainStepWhenSomeReplicasHaveNoSamples) {
  for (const char* link : {"auto", "plain"}) {
    // With 6 or 9 samples, only three of the four replicas get a piece.
    StepPair pair({.replicas = 4, .rows = {12, 6, 12, 12, 6, 6, 9}, .link = link});
    for (int64_t step = 0; step < 14; ++step) pair.step(step);
  }
}

TEST(DpGraph, AccumulatesAndClipsLikeThePlainStep) {
  for (const char* link : {"auto", "plain"})
    for (const int64_t accumulate : {2, 3}) {  // 26 samples are cut into micro-batches of 13 and 13, or of 9, 9 and 8
      StepPair pair({.rows = {26}, .link = link, .accumulate = accumulate, .clip_norm = 0.01});
      for (int64_t step = 0; step < 4; ++step) pair.step(step);
    }
}

TEST(DpGraph, EqualsThePlainStepAfterStepNumbersJumpOrASnapshotIsLoaded) {
  StepPair pair(Plan{});
  for (const int64_t step : {0, 1, 2}) pair.step(step);
  const Snapshot kept = pair.snapshot();
  for (const int64_t step : {40, 41, 5}) pair.step(step);
  pair.load(kept);
  pair.expect_equal_state(5);
  for (const int64_t step : {3, 4}) pair.step(step);
}

TEST(DpGraph, NeverRecordsTwoReplicasAtTheSameTime) {
  StepPair pair({.workload = "mnist-mlp", .replicas = 4, .rows = {30, 30, 10}});
  for (int64_t step = 0; step < 9; ++step) pair.step(step);
  EXPECT_EQ(pair.counts.overlaps, 0);
}

// A model that notes the threads on which its forward passes run.
class ThreadRecorder : public Model {
 public:
  static inline std::mutex lock;
  static inline std::map<const ThreadRecorder*, std::set<std::thread::id>> threads;

  ThreadRecorder() { weight_ = register_parameter("weight", at::ones({2, 3})); }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const std::lock_guard guard(lock);
    threads[this].insert(std::this_thread::get_id());
    return at::linear(input, weight_);
  }

 private:
  at::Tensor weight_;
};

class ThreadRecorderWorkload : public Workload {
 public:
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<ThreadRecorder>(); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override {
    return {at::ones({ids.size(0), 3}), at::ones({ids.size(0), 2}), ids};
  }
};

TEST(DpGraph, RecordsAndReplaysEachReplicaOnTheSameThread) {
  const ThreadRecorderWorkload workload;
  Counts counts;
  const StrategyInfo& info = strategy_registry().at("dp");
  const dpbench::Setup setup{.workload = workload,
                             .devices = std::vector<at::Device>(3, at::Device(at::kCPU)),
                             .params = Params(info.params, {}, "dp"),
                             .clip_norm = {}};
  ThreadRecorder::threads.clear();
  const auto strategy =
      dp::make_data_parallel(setup, [&](at::Device) { return std::make_unique<CpuGraphRecorder>(counts); });
  Phases phases;
  const std::vector<Batch> micro = {workload.batch(at::arange(9))};
  for (int64_t step = 0; step < 4; ++step) strategy->step(step, micro, phases);
  EXPECT_EQ(ThreadRecorder::threads.size(), 3U);
  for (const auto& [model, threads] : ThreadRecorder::threads) EXPECT_EQ(threads.size(), 1U);
}

std::string refusal_of(const std::map<std::string, std::string>& params) {
  const auto workload = workload_registry().at("random-linear").make({});
  const StrategyInfo& info = strategy_registry().at("dp");
  try {
    info.make(
        {.workload = *workload, .devices = {at::kCPU}, .params = Params(info.params, params, "dp"), .clip_norm = {}});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(DpGraph, TheParametersGraphAndTf32AreRejectedOnACpu) {
  EXPECT_EQ(refusal_of({}), "nothing was refused");
  EXPECT_TRUE(mentions(refusal_of({{"graph", "on"}}), {"dp.graph=on", "GPU"}));
  EXPECT_TRUE(mentions(refusal_of({{"graph", "perhaps"}}), {"dp.graph=perhaps", "on", "off"}));
  EXPECT_TRUE(mentions(refusal_of({{"tf32", "on"}}), {"dp.tf32=on", "CPU"}));
}

TEST(DpGraph, DeclaresThatItNeedsAGpuAndAModelWithTheSameGraphInEveryStep) {
  const StrategyInfo& info = strategy_registry().at("dp");
  const StrategyInfo recorded = promised(info, Params(info.params, {{"graph", "on"}}, "dp")),
                     plain = promised(info, Params(info.params, {}, "dp"));
  EXPECT_TRUE(recorded.same_graph && !recorded.cpu);
  EXPECT_TRUE(!plain.same_graph && plain.cpu);
}

// A recorded step cannot take another branch of the model later, so the checks leave out models that branch. Models
// with an unused parameter keep the same graph.
TEST(DpGraph, ChecksSkipModelsWhoseGraphChangesBetweenSteps) {
  for (const char* name : {"dp", "cpu"}) {
    StrategyInfo info = strategy_registry().at(name);
    info.same_graph = true;
    info.promise = {};
    const int world = info.parallelism == Parallelism::single ? 1 : 3;
    const auto check_on = [&](const char* workload) {
      return check_in_threads({.strategy = info, .workload = workload_registry().at(workload), .world = world});
    };
    const auto branch = check_on("probe-branch"), unused = check_on("probe-unused");
    ASSERT_EQ(branch.size(), 1U) << name;
    EXPECT_EQ(branch[0].status, CheckStatus::skipped);
    EXPECT_TRUE(mentions(branch[0].detail, {"same graph"}));
    EXPECT_GT(unused.size(), 12U) << name << ": a never-used parameter does not change the graph";
  }
}

}  // namespace
}  // namespace dpbench
