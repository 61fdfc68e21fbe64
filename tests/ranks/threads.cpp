#include "tests/ranks/threads.h"

#include <exception>
#include <thread>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/api/backend.h"
#include "workloads/base/vector_math.h"

namespace dpbench {
namespace {

CheckRequest common(const ThreadsRequest& request) {
  return {.strategy = request.strategy,
          .workload = request.workload,
          .options = {.model = request.workload.models.for_checks, .recompute = request.recompute},
          .world = request.world,
          .store = {},
          .devices = {},
          .dtype = request.dtype,
          .params = request.params,
          .seed = request.seed,
          .unwatched_s = request.unwatched_s,
          .long_form = request.long_form,
          .filter = request.filter,
          .scenarios = request.scenarios,
          .show = {}};
}

std::vector<CheckRow> one_rank(const ThreadsRequest& request, const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  at::set_num_threads(1);
  const BackendSetup setup{.store = c10::make_intrusive<c10d::PrefixStore>("group", store),
                           .rank = rank,
                           .world = request.world,
                           .local_rank = rank,
                           .local_world = request.world,
                           .timeout = request.timeout,
                           .directory = {}};
  CheckRequest mine = common(request);
  mine.rank = rank;
  mine.store = c10::make_intrusive<c10d::PrefixStore>("checks", store);
  const auto group = make_process_group(request.backend, setup);
  BackendSetup of_mesh = setup;
  of_mesh.store = c10::make_intrusive<c10d::PrefixStore>("mesh", store);
  const Params params(request.strategy.params, request.params, request.strategy.name);
  mine.mesh =
      Mesh(effective_mesh(request.strategy, params, request.mesh, request.world), group, request.backend, of_mesh);
  if (request.wrap)
    mine.mesh = mine.mesh.with_groups(
        [&](const std::string&, const auto& plain) { return wrapped_group(plain, at::kCPU, request.wrap); });
  mine.devices = {at::Device(at::kCPU)};
  return run_checks(mine);
}

}  // namespace

std::vector<CheckRow> check_in_threads(const ThreadsRequest& request) {
  bind_vector_math();
  if (request.strategy.parallelism != Parallelism::ranks) {
    at::set_num_threads(1);
    CheckRequest mine = common(request);
    mine.devices.assign(static_cast<size_t>(request.world), at::Device(at::kCPU));
    return run_checks(mine);
  }
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<CheckRow> rows;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(request.world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < request.world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto mine = one_rank(request, store, rank);
        if (rank == 0) rows = std::move(mine);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return rows;
}

}  // namespace dpbench
