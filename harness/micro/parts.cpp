// Times the work of dpbench around collectives: splitting and joining batches, copying models, dealing samples to
// ranks, worker messages and reports. Only rank 0 does the work. The numbers of iterations are fixed, because the other
// ranks run the same list of benchmarks.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/micro/team.h"
#include "harness/report/record/save.h"
#include "strategies/api/parts/flat.h"
#include "workloads/api/workload.h"
#include "workloads/data/sampler.h"

namespace dpbench::micro {
namespace {

constexpr int64_t devices = 4, rows = 512;

std::vector<at::Tensor> parameters_of(const char* workload) {
  std::vector<at::Tensor> tensors;
  for (const auto& tensor : workload_registry().at(workload).make({})->model(1)->parameters())
    tensors.push_back(tensor.detach());
  return tensors;
}

std::function<void()> scatter() {
  const auto input = at::rand({rows, 784});
  return [=] {
    for (const at::Tensor& piece : input.chunk(devices)) benchmark::DoNotOptimize(piece.clone());
  };
}

std::function<void()> gather() {
  const auto outputs = at::rand({rows, 10}).chunk(devices);
  return [=] { benchmark::DoNotOptimize(at::cat(outputs)); };
}

std::function<void()> replicate() {
  const auto like = parameters_of("convnet");
  std::vector<Flat> replicas;
  for (int64_t i = 0; i < devices; ++i) replicas.emplace_back(like);
  return [replicas]() mutable {
    for (size_t i = 1; i < replicas.size(); ++i)
      for (size_t b = 0; b < replicas[i].buffers().size(); ++b)
        at::Tensor(replicas[i].buffers()[b]).copy_(replicas[0].buffers()[b], /*non_blocking=*/true);
  };
}

std::function<void()> sampler() {
  return [sampler = DistributedSampler({.samples = 60000, .world = 8, .rank = 3}), epoch = int64_t{0}]() mutable {
    sampler.set_epoch(++epoch);
  };
}

// Returns a function that fetches the batches of a shuffled epoch one after another, as training does.
std::function<void()> batching() {
  const std::shared_ptr<Workload> workload = workload_registry().at("mnist-mlp").make({});
  const auto batches = epoch_order(workload->samples(), /*seed=*/0, /*epoch=*/0, /*shuffle=*/true).split(64);
  for (const auto& ids : batches) workload->prepare(ids);
  return
      [=, next = size_t{0}]() mutable { benchmark::DoNotOptimize(workload->batch(batches[next++ % batches.size()])); };
}

RankRecord record_of(int rank) {
  RankRecord record;
  record.rank = rank;
  record.steps_per_sample = 100;
  record.samples_ns.assign(50, 123'456'789);
  record.phases_ns = {{"forward", 1e5}, {"backward", 2e5}, {"optimizer", 1e4}};
  record.parameters_hash = "0123456789abcdef";
  return record;
}

std::function<void()> protocol() {
  return [record = record_of(3)] {
    benchmark::DoNotOptimize(rank_record_from_json(parse_json(to_json(record).dump(), "a line")));
  };
}

// Returns a function that saves a report to disk, with `cases` cases of `launches` launches (starts of 4 ranks).
std::function<void()> report_writing(int cases, int launches) {
  Report report;
  report.id = "micro";
  for (int i = 0; i < cases; ++i) {
    CaseRecord record;
    record.spec.strategy = "ddp";
    record.spec.id = "case " + std::to_string(i);
    for (int launch = 0; launch < launches; ++launch)
      record.launches.push_back({launch, {record_of(0), record_of(1), record_of(2), record_of(3)}});
    report.cases.push_back(record);
  }
  std::string folder = std::filesystem::temp_directory_path() / "dpbench-micro-report-XXXXXX";
  if (!mkdtemp(folder.data())) throw std::runtime_error("cannot create a temporary directory for a report");
  const std::shared_ptr<RunDirectory> directory(new RunDirectory(folder, "run"), [folder](RunDirectory* run) {
    delete run;
    std::filesystem::remove_all(folder);
  });
  return [=] { directory->save(report, /*force=*/true); };
}

}  // namespace

void add_parts(Team& team) {
  struct Part {
    const char* name;
    std::function<void()> (*prepare)();
    int64_t iterations;
  };
  static const Part parts[] = {{"scatter_batch/rows:512/devices:4", scatter, 500},
                               {"gather_outputs/rows:512/devices:4", gather, 2000},
                               {"replicate/workload:convnet/devices:4", replicate, 2000},
                               {"sampler/samples:60000/world:8", sampler, 50},
                               {"batching/workload:mnist-mlp/rows:64", batching, 1000},
                               {"protocol/samples:50", protocol, 500},
                               {"report_writing/cases:20", [] { return report_writing(20, 5); }, 20},
                               {"report_writing/cases:10000", [] { return report_writing(10'000, 1); }, 1}};
  for (const Part& part : parts)
    benchmark::RegisterBenchmark(part.name,
                                 [&team, &part](benchmark::State& state) {
                                   const std::function<void()> work = team.rank() == 0 ? part.prepare() : [] {};
                                   for ([[maybe_unused]] auto _ : state) work();
                                 })
        ->Iterations(part.iterations)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
}

}  // namespace dpbench::micro
