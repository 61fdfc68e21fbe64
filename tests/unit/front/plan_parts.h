// Helpers of the plan tests: a catalogue of strategies, workloads and backends, a fake machine, and the case ids of a
// plan.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/front/plan/plan.h"
#include "tests/support/contains.h"
#include "workloads/base/error.h"

namespace dpbench::test {

inline StrategyEntry strategy(const std::string& name, Parallelism parallelism, bool cpu, bool cuda) {
  return {.name = name,
          .summary = "",
          .parallelism = parallelism,
          .gradient = "",
          .buffers = "",
          .cpu = cpu,
          .cuda = cuda,
          .params = {}};
}

inline Catalogue catalogue() {
  Catalogue all;
  all.strategies = {strategy("cpu", Parallelism::single, true, false),
                    strategy("gpu", Parallelism::single, false, true),
                    strategy("dp", Parallelism::replicas, true, true), strategy("ddp", Parallelism::ranks, true, true)};
  all.strategies[3].params = {{"bucket_mb", "25", "", "number"}, {"overlap", "on", "", "on|off"}};
  all.strategies[2].params = {{"overlap", "on", "", "on|off"}};
  all.workloads = {{"random-linear", "", Scaling::strong, 30, false},
                   {"mnist-mlp", "", Scaling::weak, 64, false},
                   {"probe", "", Scaling::weak, 4, true}};
  all.backends = {
      {.name = "gloo", .summary = "", .cpu = true, .cuda = true, .cpu_preference = 10, .cuda_preference = 10},
      {.name = "shm", .summary = "", .cpu = true, .cuda = false, .cpu_preference = 20, .shares_memory = true},
      {.name = "nccl", .summary = "", .cpu = false, .cuda = true, .shares_device = false, .cuda_preference = 20},
      {.name = "threads", .summary = "", .cpu = true, .cuda = false, .threads = true}};
  all.not_built = {{"backend", "mpi", "no MPI was found"}};
  return all;
}

inline Machine machine(int cores, size_t gpus = 0) {
  return {.cores = cores, .cpus = {}, .gpus = std::vector<GpuState>(gpus), .no_gpu_reason = gpus ? "" : "no driver"};
}

inline Selection ddp_on_mlp() {
  Selection what;
  what.strategies = {"ddp"};
  what.workloads = {"mnist-mlp"};
  return what;
}

inline std::vector<std::string> ids(const Plan& plan) {
  std::vector<std::string> all;
  for (const auto& spec : plan.cases) all.push_back(spec.id);
  return all;
}

using Ids = std::vector<std::string>;

// Returns the message of the Error that make_plan throws, or "accepted" if it throws nothing.
template <class Error>
std::string refusal(const Selection& what, const Machine& here, const Catalogue& all = catalogue()) {
  try {
    make_plan(what, all, here);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace dpbench::test
