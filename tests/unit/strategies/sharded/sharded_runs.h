// Runs sharded strategies on ranks that are threads, and returns rank 0's tensors afterwards.
#pragma once

#include <atomic>
#include <random>

#include "tests/ranks/ddp_ranks.h"

namespace dpbench::sharded_runs {

using namespace ddp_ranks;

inline std::unique_ptr<Workload> gpt(const std::string& model = "tiny") {
  return workload_registry().at("gpt").make({.model = model});
}

// Sleeps for a random time in randomly chosen calls, on average in every third.
class RandomSleep {
 public:
  explicit RandomSleep(uint64_t seed) : drawn_(seed) {}
  void operator()() {
    std::exponential_distribution<double> milliseconds(2);
    if (drawn_() % 3 == 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds(drawn_)));
  }

 private:
  std::mt19937_64 drawn_;
};

// A backend that delays its rank before collectives.
class LateRank : public ForwardingBackend {
 public:
  LateRank(c10::intrusive_ptr<c10d::Backend> inner, uint64_t seed)
      : ForwardingBackend(std::move(inner)), sleep_(seed) {}

 protected:
  WorkPtr around(Call call) override {
    sleep_();
    return call.run();
  }

 private:
  RandomSleep sleep_;
};

// Returns the mesh with delays: ranks reach their collectives late, and the collectives themselves start late.
inline Mesh delayed(const Mesh& mesh, int rank, uint64_t seed) {
  return mesh.with_groups([=](const std::string&, const auto& group) {
    return wrapped_group(group, at::kCPU, [=](const c10::intrusive_ptr<c10d::Backend>& inner) {
      const auto late = c10::make_intrusive<LateBackend>(inner, seed);
      return c10::intrusive_ptr<c10d::Backend>(
          c10::make_intrusive<LateRank>(late, seed * 100 + static_cast<uint64_t>(rank)));
    });
  });
}

// A training run of a strategy on several ranks.
struct Training {
  std::string strategy;
  int world = 2;
  Given params = {};
  std::string mesh = {};  // mesh, e.g. "dp=2,shard=2"; empty: all ranks are on the axis dp
  int steps = 3;
  std::optional<double> clip_norm = {};
  std::optional<uint64_t> delays = {};  // seed of the random delays; nullopt: no delays
};

// Rank 0's tensors after some steps.
struct Outcome {
  NamedTensors gradients, parameters, state;
  double peak_bytes = 0;
  NamedTensors results = {};  // each step's loss, and the last step's output
  NamedTensors buffers = {};  // such as BatchNorm's running statistics
};

inline NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.emplace_back(name, tensor.defined() ? tensor.clone() : tensor);
  return all;
}

// Returns the mesh on which a training run's strategy works.
inline Mesh mesh_of(const Training& run, const Rank& me) {
  const StrategyInfo& info = strategy_registry().at(run.strategy);
  return me.mesh(effective_mesh(info, Params(info.params, run.params, run.strategy), run.mesh, run.world));
}

inline Outcome trained(const Training& run, const Workload& workload) {
  Outcome outcome;
  expect_no_errors(on_ranks(run.world, [&](Rank& me) {
    Mesh mesh = mesh_of(run, me);
    if (run.delays) mesh = delayed(mesh, me.rank, *run.delays);
    const auto strategy = made_on(mesh, run.strategy, workload, run.params, at::kFloat, run.clip_norm);
    for (int64_t step = 0; step < run.steps; ++step) one_step(*strategy, workload, me.rank, step);
    const Outcome mine{copies(strategy->gradients()), copies(strategy->parameters()), copies(strategy->state())};
    const auto figures = strategy->figures();
    if (me.rank != 0) return;
    outcome = mine;
    if (const auto found = figures.find("gathered_parameters_peak_bytes"); found != figures.end())
      outcome.peak_bytes = found->second.at(0);
  }));
  return outcome;
}

inline Outcome trained(const std::string& strategy, int world, const Workload& workload, const Given& params,
                       int steps = 3, std::optional<double> clip_norm = {}) {
  return trained({.strategy = strategy, .world = world, .params = params, .steps = steps, .clip_norm = clip_norm},
                 workload);
}

// A backend that counts `calls_left` down in each collective, and throws in the collective that finds it at 0.
class FailingBackend : public ForwardingBackend {
 public:
  FailingBackend(c10::intrusive_ptr<c10d::Backend> inner, std::atomic<int>& calls_left)
      : ForwardingBackend(std::move(inner)), calls_left_(calls_left) {}

 protected:
  WorkPtr around(Call call) override {
    if (calls_left_-- == 0) throw std::runtime_error("the network is gone");
    return call.run();
  }

 private:
  std::atomic<int>& calls_left_;
};

// Runs a step of two ranks in which collective number `call` (from 0) of rank 1 fails. Returns rank 1's error.
inline std::string error_of_call(const std::string& strategy, const std::string& axes, int call,
                                 const Given& params = {}, const std::string& model = "tiny") {
  const auto workload = gpt(model);
  const auto errors = on_ranks(2, [&](Rank& me) {
    std::atomic<int> calls_left = -1;
    const Mesh mesh = me.mesh(axes).with_groups([&](const std::string&, const auto& group) {
      return wrapped_group(group, at::kCPU, [&](const c10::intrusive_ptr<c10d::Backend>& inner) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<FailingBackend>(inner, calls_left));
      });
    });
    const auto one = made_on(mesh, strategy, *workload, params);
    if (me.rank == 1) calls_left = call;
    Phases phases;
    const std::vector<Batch> micro = {workload->batch(at::arange(3))};
    one->step(0, micro, phases);
  });
  return errors.at(1);
}

inline std::string first_difference(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, tensor] : a) {
    const at::Tensor* other = find(b, name);
    if (!other || !same_bits(tensor, *other)) return name;
  }
  return a.size() == b.size() ? "" : "another number of tensors";
}

inline void expect_same_bits(const Outcome& due, const Outcome& found, const std::string& which) {
  EXPECT_FALSE(due.parameters.empty());
  EXPECT_EQ(first_difference(due.gradients, found.gradients), "") << which << ": gradients";
  EXPECT_EQ(first_difference(due.parameters, found.parameters), "") << which << ": parameters";
  EXPECT_EQ(first_difference(due.state, found.state), "") << which << ": optimizer state";
  EXPECT_EQ(first_difference(due.results, found.results), "") << which;
  EXPECT_EQ(first_difference(due.buffers, found.buffers), "") << which << ": buffers";
}

}  // namespace dpbench::sharded_runs
