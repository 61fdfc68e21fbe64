// Small but complete reports (the JSON documents of a run) for tests.
#pragma once

#include <string>
#include <vector>

#include "harness/report/answer/answer.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/machine/environment.h"
#include "harness/report/machine/tool.h"
#include "harness/report/record/report.h"

namespace dpbench::test {

inline constexpr const char* sample_id = "20261121T063057Z-a1b2c3d-2xEPYC-5f3a";

inline RankRecord rank_record(int rank, std::vector<int64_t> samples_ns, int64_t steps = 10) {
  RankRecord record;
  record.rank = rank;
  record.steps_per_sample = steps;
  record.samples_ns = std::move(samples_ns);
  record.parameters_hash = "same";
  return record;
}

// Returns a case with one launch (start of the processes) for each given block time in ns. Every rank of a launch has
// three timed blocks of 10 steps.
inline CaseRecord measured(const std::string& strategy, int world, Scaling scaling, int64_t batch,
                           const std::vector<int64_t>& launches_ns) {
  CaseRecord record;
  record.spec.strategy = strategy;
  record.spec.workload = "mnist-mlp";
  record.spec.world = world;
  record.spec.processes = strategy == "ddp" ? world : 1;
  record.spec.backend = strategy == "ddp" ? "shm" : "none";
  record.spec.scaling = scaling;
  record.spec.batch = batch;
  record.spec.baseline = strategy == "cpu" || strategy == "gpu";
  record.spec.id = case_id(record.spec);
  record.status = CaseStatus::ok;
  for (const int64_t sample_ns : launches_ns) {
    LaunchRecord launch{.index = static_cast<int>(record.launches.size()), .ranks = {}};
    for (int rank = 0; rank < record.spec.processes; ++rank)
      launch.ranks.push_back(rank_record(rank, {sample_ns, sample_ns, sample_ns}));
    record.launches.push_back(std::move(launch));
  }
  return record;
}

inline CaseRecord measured(const std::string& strategy, int world, Scaling scaling, int64_t batch, int64_t sample_ns) {
  return measured(strategy, world, scaling, batch, std::vector<int64_t>{sample_ns, sample_ns, sample_ns});
}

inline Report report_of(std::vector<CaseRecord> cases) {
  Report report;
  report.id = sample_id;
  report.status = RunStatus::complete;
  report.cases = std::move(cases);
  return report;
}

// Returns a report with one case of every status and a value in every field. Its environment is the machine that runs
// the test.
inline Report full_report() {
  CaseRecord good = measured("ddp", 2, Scaling::weak, 64, 12500);
  good.spec.params = {{"bucket_mb", "1"}};
  good.spec.id = case_id(good.spec);
  good.means = batch_mean;
  good.memory_formula = {.parameters = 4096, .gradients = 4096, .state = 8192, .activations = 2048, .buffers = 1024};
  good.checks = {
      {.name = "output-shape", .status = CheckStatus::passed, .compared = "64x10 with 64x10", .error = 0, .bound = 0},
      {.name = "loss-falls", .status = CheckStatus::skipped, .detail = "one step"}};
  good.warnings = {"other work is running"};
  good.launches[1].ranks[0].samples_ns[1] = 20000;
  good.training = {.epochs = 2,
                   .steps_per_epoch = 2,
                   .steps = 4,
                   .resumed_at = 1,
                   .seconds = 0.5,
                   .samples_per_s = 1000,
                   .data_fraction = 0.04,
                   .epoch_losses = {4.25, 3.5},
                   .loss_curve = {2.25, 2, 1.75, 1.75},
                   .accuracy = {0.5, 0.75},
                   .target_accuracy = 0.7,
                   .time_to_accuracy_s = 0.5};
  for (auto& launch : good.launches)
    for (auto& rank : launch.ranks) {
      rank.step_p50_ns = 1200, rank.step_p90_ns = 1300, rank.step_p99_ns = 1400;
      rank.phases_ns = {{"forward", 700}, {"communication", 300}};
      rank.rows_per_step = 128;
      rank.model_parameters = 1000, rank.model_bytes = 4000;
      rank.peak_rss_bytes = 1 << 28, rank.own_rss_bytes = 1 << 27;
      rank.peak = Peak{.gemm_flop_per_s = 5e10, .triad_bytes_per_s = 2e10};
      rank.profile = {
          .steps = 10,
          .step_ns = 1010,
          .collectives = {{.op = "allreduce", .phase = "backward", .bytes = 4096, .start_ns = 500, .end_ns = 900}},
          .ledger = {{.axis = "dp",
                      .op = "allreduce",
                      .calls = 1,
                      .bytes = 4096,
                      .phase_bytes = {{"backward", 4096}},
                      .formula_bytes = 4096,
                      .formula_calls = 1}},
          .collectives_per_step = 1,
          .collective_bytes_per_step = 4096,
          .communication_ns = 400,
          .exposed_ns = 300,
          .hidden_ns = 100,
          .waiting_ns = 50,
          .strategy_figures = {{"reducer_bucket_bytes", {4096}}},
          .flop = 30000};
      rank.first_loss = 2.3, rank.last_loss = 0.4;
      rank.gpus = {{.pci_bus = "00000000:1B:00.0",
                    .readings = 3,
                    .mean_power_w = 400,
                    .most_power_w = 500,
                    .mean_sm_clock_mhz = 1900,
                    .least_sm_clock_mhz = 1800,
                    .least_memory_clock_mhz = 2619,
                    .most_temperature_c = 60,
                    .throttled_readings = 1,
                    .throttle_reasons = {"sw_power_cap"}}};
    }
  CaseRecord wrong = measured("dp", 2, Scaling::weak, 64, 11000);
  wrong.checks = {{.name = "gradient-vs-baseline",
                   .status = CheckStatus::failed,
                   .compared = "gradients with float64 oracle",
                   .error = 1.0,
                   .bound = 1e-12,
                   .detail = "n.1.weight[3]: <expected> 1 & found \"2\"",
                   .likely = "sum instead of mean"}};
  CaseRecord failed = measured("ddp", 4, Scaling::weak, 64, std::vector<int64_t>{});
  failed.status = CaseStatus::failed, failed.reason = "rank 2 was killed by signal 9 at step 17";
  CaseRecord skipped = measured("gpu", 1, Scaling::weak, 64, std::vector<int64_t>{});
  skipped.spec.device = Device::cuda, skipped.spec.id = case_id(skipped.spec);
  skipped.status = CaseStatus::skipped, skipped.reason = "no GPU here";
  CaseRecord interrupted = measured("ddp", 3, Scaling::strong, 30, std::vector<int64_t>{9000});
  interrupted.status = CaseStatus::interrupted, interrupted.reason = "Ctrl-C";
  Report report = report_of({measured("cpu", 1, Scaling::weak, 64, 10000), good, wrong, failed, skipped, interrupted});
  report.status = RunStatus::interrupted;
  report.env = environment(
      this_machine(),
      {.gpus = {{.name = "NVIDIA H200", .uuid = "GPU-1", .memory_bytes = 150, .temperature_c = 40, .ecc = true}},
       .driver = "580.1",
       .links = {{"X"}}},
      {.torch = "2.11.0", .cuda = "13.0", .nccl = "2.28.9"});
  report.tool = tool_block({"dpbench", "--quick"});
  report.started = "2026-11-21T06:30:57Z", report.ended = "2026-11-21T06:31:57Z";
  report.defaults = {{"ddp", {{"bucket_mb", "25"}}}};
  for (int order = 0; CaseRecord & record : report.cases)
    for (LaunchRecord& launch : record.launches) launch.order = order++;
  report.config = {{"seed", 1}, {"launches", 3}, {"sampling", {{"samples", 3}, {"steps", 10}}}};
  summarise(report);
  report.answer = answer_of(report);
  return report;
}

}  // namespace dpbench::test
