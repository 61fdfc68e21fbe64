// Runs the ranks of ddp as threads. Defines the small workloads of the ddp tests.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/conform/evidence/watching_backends.h"
#include "strategies/api/backend.h"
#include "strategies/api/parts/replica.h"
#include "strategies/api/strategy.h"

namespace dpbench::ddp_ranks {

using Given = std::map<std::string, std::string>;

struct Rank {
  int rank = 0, world = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<RecordingBackend> recorder;
  c10::intrusive_ptr<c10d::Store> store;

  // Waits for all ranks. Does not use ProcessGroup::barrier(): it has a static tensor, which ranks that are threads
  // would free twice.
  void meet() const { group->getDefaultBackend()->barrier({})->wait(); }

  BackendSetup setup(const std::string& keys) const {
    return {.store = c10::make_intrusive<c10d::PrefixStore>(keys, store),
            .rank = rank,
            .world = world,
            .local_rank = rank,
            .local_world = world,
            .device = at::kCPU,
            .timeout = std::chrono::seconds(30),
            .directory = ""};
  }

  void join_group(const std::string& keys) {
    const auto plain = make_process_group("threads", setup(keys));
    group = wrapped_group(plain, at::kCPU, [&](c10::intrusive_ptr<c10d::Backend> inner) {
      recorder = c10::make_intrusive<RecordingBackend>(inner, "dp");
      return c10::intrusive_ptr<c10d::Backend>(recorder);
    });
  }

  // Returns this rank's mesh. axes: e.g. "dp=2,shard=2"; empty: all ranks are on the axis dp.
  Mesh mesh(const std::string& axes) const { return axes.empty() ? Mesh("dp", group) : mesh(parse_mesh(axes)); }
  Mesh mesh(const MeshShape& shape) const { return Mesh(shape, group, "threads", setup("mesh")); }
};

// Runs `work` on `world` ranks, each on its own thread. Returns one error per rank, empty if the rank succeeded.
inline std::vector<std::string> on_ranks(int world, const std::function<void(Rank&)>& work) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Rank me{rank, world, {}, {}, store};
        me.join_group("first");
        work(me);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

inline std::unique_ptr<Strategy> made_on(const Mesh& mesh, const std::string& name, const Workload& workload,
                                         const Given& params, at::ScalarType dtype = at::kDouble,
                                         std::optional<double> clip_norm = {}) {
  const StrategyInfo& info = strategy_registry().at(name);
  return info.make({.workload = workload,
                    .devices = {at::kCPU},
                    .mesh = mesh,
                    .init_seed = 3,
                    .step_seed = 4,
                    .dtype = dtype,
                    .params = Params(info.params, params, name),
                    .clip_norm = clip_norm});
}

inline std::unique_ptr<Strategy> made(const std::string& name, const Rank& me, const Workload& workload,
                                      const Given& params, at::ScalarType dtype = at::kDouble,
                                      std::optional<double> clip_norm = {}) {
  return made_on(Mesh("dp", me.group), name, workload, params, dtype, clip_norm);
}

inline std::unique_ptr<Strategy> ddp_on(const Rank& me, const Workload& workload, const Given& params,
                                        at::ScalarType dtype = at::kDouble) {
  return made("ddp", me, workload, params, dtype);
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

// A model of two layers. It uses the second layer only in steps for which `uses` returns true.
class TwoLayers : public Model {
 public:
  explicit TwoLayers(std::function<bool(const Context&)> uses) : uses_(std::move(uses)) {
    first_ = register_parameter("first", at::full({4, 4}, 0.5));
    second_ = register_parameter("second", at::full({4, 4}, 0.25));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    const at::Tensor x = at::linear(input, first_);
    return uses_(context) ? at::linear(x, second_) : x;
  }

 private:
  std::function<bool(const Context&)> uses_;
  at::Tensor first_, second_;
};

class SecondLayerIf : public Workload {
 public:
  explicit SecondLayerIf(std::function<bool(const Context&)> uses, double size = 1)
      : uses_(std::move(uses)), size_(size) {}
  int64_t samples() const override { return 64; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<TwoLayers>(uses_); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.mean(); }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.125}; }
  Batch batch(const at::Tensor& ids) const override {
    return {(ids.to(at::kFloat).unsqueeze(1) % 7).expand({-1, 4}) * size_, at::zeros({ids.size(0), 1}), ids};
  }

 private:
  std::function<bool(const Context&)> uses_;
  double size_;
};

inline const SecondLayerIf& always() {
  static const SecondLayerIf workload([](const Context&) { return true; });
  return workload;
}

inline Batch batch_of(const Workload& workload, int rank, int64_t step, int64_t count = 4) {
  return workload.batch(at::arange(count).add(rank * 8 + step * 24).remainder(workload.samples()));
}

inline StepResult one_step(Strategy& strategy, const Workload& workload, int rank, int64_t step) {
  Phases phases;
  const Batch micro[] = {batch_of(workload, rank, step)};
  return strategy.step(step, micro, phases);
}

inline std::vector<double> flat(const NamedTensors& tensors) {
  std::vector<double> values;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor all = tensor.detach().flatten().contiguous();
    values.insert(values.end(), all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
  }
  return values;
}

// Returns the expected gradients of a ddp step: the mean over the ranks of the gradients of a model without ddp on each
// rank's samples.
inline std::vector<at::Tensor> mean_gradients(const Workload& workload, int world, int64_t step) {
  std::vector<at::Tensor> sum;
  for (int rank = 0; rank < world; ++rank) {
    const Replica alone(workload, at::kCPU, at::kDouble, 3, 4);
    const Batch batch = alone.to_device(batch_of(workload, rank, step));
    workload.loss(alone.forward(step, batch), batch.target).backward();
    for (size_t p = 0; p < alone.trainable().size(); ++p) {
      const at::Tensor part = alone.trainable()[p].tensor.grad() / world;
      if (rank == 0)
        sum.push_back(part);
      else
        sum[p] += part;
    }
  }
  return sum;
}

// Returns the size in bytes of each gradient allreduce in one step.
inline std::vector<int64_t> reductions(const Rank& me, Strategy& strategy, std::span<const Batch> micro, int64_t step) {
  Phases phases;
  me.recorder->start(false);
  strategy.step(step, micro, phases);
  std::vector<int64_t> bytes;
  for (const Collective& collective : me.recorder->stop())
    if (collective.floating && collective.op == CollectiveOp::allreduce) bytes.push_back(collective.bytes);
  return bytes;
}

}  // namespace dpbench::ddp_ranks
