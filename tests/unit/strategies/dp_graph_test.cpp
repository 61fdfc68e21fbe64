// dp with recorded passes, with a recorder for the CPU: what it is given to record runs at each replay, in float64 in
// the same memory.
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
#include "tests/conformance/threads.h"
#include "tests/unit/strategies/replayed_memory.h"

namespace dpbench {
namespace {

struct Tally {
  std::atomic<int> recorders{0}, recordings{0}, replays{0}, at_work{0}, overlaps{0};
};

class ReplayedOnCpu : public StepGraph {
 public:
  ReplayedOnCpu(std::function<void()> body, Tally& tally, bool same_memory)
      : body_(std::move(body)), tally_(tally), same_memory_(same_memory) {}
  void replay() override {
    ++tally_.at_work, ++tally_.replays;
    {
      std::optional<ReplayedMemory::Run> run;
      if (same_memory_) run.emplace(memory_);
      body_();
    }
    --tally_.at_work;
  }

 private:
  ReplayedMemory memory_;
  std::function<void()> body_;
  Tally& tally_;
  bool same_memory_;
};

class OnCpu : public StepRecorder {
 public:
  explicit OnCpu(Tally& tally, bool same_memory = true) : tally_(tally), same_memory_(same_memory) {
    ++tally_.recorders;
  }
  bool takes_backend(const std::string&) const override { return false; }
  std::unique_ptr<StepGraph> record(const std::function<void()>& body) override {
    ++tally_.at_work, ++tally_.recordings;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tally_.overlaps += tally_.at_work != 1;
    --tally_.at_work;
    return std::make_unique<ReplayedOnCpu>(body, tally_, same_memory_);
  }

 private:
  Tally& tally_;
  bool same_memory_;
};

struct Course {
  std::string workload = "convnet";
  size_t replicas = 3;
  std::vector<int64_t> rows = {12};  // of the steps of an epoch
  std::string link = "auto";
  at::ScalarType dtype = at::kDouble;
  int64_t accumulate = 1;
  std::optional<double> clip_norm = {};
};

// The same steps by dp as it is and recorded: the same in all that they show and leave behind. In float64 nearly so,
// since a product may round otherwise where its rows lie otherwise in memory; else bit for bit, and the rows must be 48
// a step or so.
class Twins {
 public:
  explicit Twins(const Course& course)
      : course_(course),
        workload_(workload_registry().at(course.workload).make({})),
        plain_(dp::make_data_parallel(setup(), {})),
        recorded_(dp::make_data_parallel(
            setup(), [this](at::Device) { return std::make_unique<OnCpu>(tally, course_.dtype == at::kDouble); })) {}

  void step(int64_t step) {
    const int64_t rows = course_.rows[static_cast<size_t>(step) % course_.rows.size()];
    std::vector<Batch> micro;
    for (const auto& ids : at::arange(rows).add(step * 7).remainder(workload_->samples()).chunk(course_.accumulate)) {
      workload_->prepare(ids);
      const bool with_rows = course_.dtype == at::kDouble && step % 3 != 1;
      micro.push_back(with_rows ? workload_->batch(ids) : Batch{{}, {}, ids});
    }
    Phases phases;
    const StepResult a = plain_->step(step, micro, phases), b = recorded_->step(step, micro, phases);
    EXPECT_TRUE(same(a.output, b.output)) << "step " << step;
    EXPECT_TRUE(same(a.loss, b.loss)) << "step " << step;
    EXPECT_FALSE(b.output.requires_grad() || b.loss.requires_grad());
    alike(plain_->gradients(), recorded_->gradients(), step);
    alike_state(step);
  }

  void alike_state(int64_t step) {
    alike(plain_->parameters(), recorded_->parameters(), step);
    alike(plain_->buffers(), recorded_->buffers(), step);
    alike(plain_->state(), recorded_->state(), step);
  }

  Snapshot snapshot() { return snapshot_of(*recorded_); }
  void go_back_to(const Snapshot& snapshot) { plain_->load(snapshot), recorded_->load(snapshot); }

  Tally tally;

 private:
  Setup setup() const {
    const StrategyInfo& info = strategy_registry().at("dp");
    return {.workload = *workload_,
            .devices = std::vector<at::Device>(course_.replicas, at::Device(at::kCPU)),
            .group = {},
            .init_seed = 3,
            .step_seed = 4,
            .dtype = course_.dtype,
            .params = Params(info.params, {{"link", course_.link}}, "dp"),
            .accumulate = course_.accumulate,
            .clip_norm = course_.clip_norm};
  }
  bool same(const at::Tensor& a, const at::Tensor& b) const {
    return course_.dtype == at::kDouble ? at::allclose(a, b, 1e-7, 1e-9) : at::equal(a, b);
  }
  void alike(const NamedTensors& a, const NamedTensors& b, int64_t step) const {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].second.defined(), b[i].second.defined()) << a[i].first << ", step " << step;
      if (!a[i].second.defined()) continue;
      EXPECT_TRUE(same(a[i].second, b[i].second)) << a[i].first << ", step " << step;
      EXPECT_EQ(a[i].second.strides(), b[i].second.strides()) << a[i].first << ", step " << step;
    }
  }

  Course course_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Strategy> plain_, recorded_;
};

TEST(DpGraph, IsThePlainStepForEveryWorkloadTypeAndLink) {
  at::set_num_threads(1);  // or the replicas of both would wait for each other's cores
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const char* workload :
         {"random-linear", "mnist-mlp", "convnet", "probe-unused", "probe-strided", "probe-reused"})
      for (const size_t replicas : {1U, 3U})
        for (const char* link : {"auto", "plain"}) {
          SCOPED_TRACE(std::string(workload) + " " + at::toString(dtype) + " " + std::to_string(replicas) + " " + link);
          Twins twins({.workload = workload, .replicas = replicas, .rows = {48}, .link = link, .dtype = dtype});
          for (int64_t step = 0; step < 4; ++step) twins.step(step);
          EXPECT_EQ(twins.tally.recorders, 1) << "the replicas share a device";
          EXPECT_EQ(twins.tally.recordings, 2 * static_cast<int>(replicas)) << "forward and backward of each";
          EXPECT_EQ(twins.tally.replays, 3 * 2 * static_cast<int>(replicas)) << "all but the first step";
        }
}

TEST(DpGraph, RecordsEachShapeOfEachReplicaOnce) {
  Twins twins({.workload = "random-linear", .rows = {30, 30, 30, 10}});  // pieces of 10, and of 4, 4 and 2
  for (int64_t step = 0; step < 12; ++step) twins.step(step);
  EXPECT_EQ(twins.tally.recordings, 3 * 2 * 2);
  EXPECT_EQ(twins.tally.replays, 3 * 2 * (8 + 2));
}

TEST(DpGraph, LeavesReplicasWithoutRowsAlone) {
  for (const char* link : {"auto", "plain"}) {
    Twins twins({.replicas = 4, .rows = {12, 6, 12, 12, 6, 6, 9}, .link = link});  // 6 and 9 are three pieces
    for (int64_t step = 0; step < 14; ++step) twins.step(step);
  }
}

TEST(DpGraph, AccumulatesAndClipsAsThePlainStepDoes) {
  for (const char* link : {"auto", "plain"})
    for (const int64_t accumulate : {2, 3}) {  // of 26 rows: 13 and 13; 9, 9 and 8
      Twins twins({.rows = {26}, .link = link, .accumulate = accumulate, .clip_norm = 0.01});
      for (int64_t step = 0; step < 4; ++step) twins.step(step);
    }
}

TEST(DpGraph, GoesOnFromAnyStepAndSnapshot) {
  Twins twins(Course{});
  for (const int64_t step : {0, 1, 2}) twins.step(step);
  const Snapshot kept = twins.snapshot();
  for (const int64_t step : {40, 41, 5}) twins.step(step);
  twins.go_back_to(kept);
  twins.alike_state(5);
  for (const int64_t step : {3, 4}) twins.step(step);
}

TEST(DpGraph, RecordsOneReplicaAtATimeWithNothingElseAtWork) {
  Twins twins({.workload = "mnist-mlp", .replicas = 4, .rows = {30, 30, 10}});
  for (int64_t step = 0; step < 9; ++step) twins.step(step);
  EXPECT_EQ(twins.tally.overlaps, 0);
}

// Notes which threads its forward passes run on.
class Threaded : public Model {
 public:
  static inline std::mutex lock;
  static inline std::map<const Threaded*, std::set<std::thread::id>> threads;

  Threaded() { weight_ = register_parameter("weight", at::ones({2, 3})); }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    const std::lock_guard held(lock);
    threads[this].insert(std::this_thread::get_id());
    return at::linear(input, weight_);
  }

 private:
  at::Tensor weight_;
};

class ThreadedRows : public Workload {
 public:
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Threaded>(); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override {
    return {at::ones({ids.size(0), 3}), at::ones({ids.size(0), 2}), ids};
  }
};

TEST(DpGraph, KeepsEachReplicaToItsThreadAlsoWhileRecording) {
  const ThreadedRows workload;
  Tally tally;
  const StrategyInfo& info = strategy_registry().at("dp");
  const dpbench::Setup setup{.workload = workload,
                             .devices = std::vector<at::Device>(3, at::Device(at::kCPU)),
                             .group = {},
                             .params = Params(info.params, {}, "dp"),
                             .clip_norm = {}};
  Threaded::threads.clear();
  const auto strategy = dp::make_data_parallel(setup, [&](at::Device) { return std::make_unique<OnCpu>(tally); });
  Phases phases;
  const std::vector<Batch> micro = {workload.batch(at::arange(9))};
  for (int64_t step = 0; step < 4; ++step) strategy->step(step, micro, phases);
  EXPECT_EQ(Threaded::threads.size(), 3U);
  for (const auto& [model, threads] : Threaded::threads) EXPECT_EQ(threads.size(), 1U);
}

std::string refusal_of(const std::map<std::string, std::string>& params) {
  const auto workload = workload_registry().at("random-linear").make({});
  const StrategyInfo& info = strategy_registry().at("dp");
  try {
    info.make({.workload = *workload,
               .devices = {at::kCPU},
               .group = {},
               .params = Params(info.params, params, "dp"),
               .clip_norm = {}});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(DpGraph, IsRefusedOnACpuAsIsTf32) {
  EXPECT_EQ(refusal_of({}), "nothing was refused");
  EXPECT_EQ(refusal_of({{"graph", "on"}}), "dp.graph=on needs GPUs: a CPU records no graphs; use dp.graph=off");
  EXPECT_EQ(refusal_of({{"graph", "perhaps"}}), "dp.graph=perhaps is neither on nor off");
  EXPECT_EQ(refusal_of({{"tf32", "on"}}), "dp.tf32=on needs a GPU: a CPU has no TF32");
}

TEST(DpGraph, PromisesTheSameGraphInEveryStepAndNoCpu) {
  const StrategyInfo& info = strategy_registry().at("dp");
  const StrategyInfo recorded = promised(info, Params(info.params, {{"graph", "on"}}, "dp")),
                     plain = promised(info, Params(info.params, {}, "dp"));
  EXPECT_TRUE(recorded.same_graph && !recorded.cpu);
  EXPECT_TRUE(!plain.same_graph && plain.cpu);
}

// What is recorded once takes no other way later.
TEST(DpGraph, IsNotPutThroughAModelThatChangesItsGraph) {
  for (const char* name : {"dp", "cpu"}) {
    StrategyInfo info = strategy_registry().at(name);
    info.same_graph = true;
    info.promise = {};
    const int world = info.parallelism == Parallelism::single ? 1 : 3;
    const auto rows_of = [&](const char* workload) {
      return check_in_threads({.strategy = info, .workload = workload_registry().at(workload), .world = world});
    };
    const auto branch = rows_of("probe-branch"), unused = rows_of("probe-unused");
    ASSERT_EQ(branch.size(), 1U) << name;
    EXPECT_EQ(branch[0].status, CheckStatus::skipped);
    EXPECT_NE(branch[0].detail.find("the same graph in every step"), std::string::npos) << branch[0].detail;
    EXPECT_GT(unused.size(), 12U) << name << ": a parameter that is never used is no change";
  }
}

}  // namespace
}  // namespace dpbench
