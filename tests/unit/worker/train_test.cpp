// Parts of a training run that need no worker process: order of samples, printed lines and checkpoints.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <limits>
#include <set>

#include "harness/worker/train/checkpoint.h"
#include "harness/worker/train/shapes.h"
#include "harness/worker/train/train_lines.h"
#include "harness/worker/train/train_source.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

CaseSpec case_on_ranks(int ranks, int64_t batch, Scaling scaling) {
  CaseSpec spec;
  spec.workload = "random-linear";
  spec.world = spec.processes = ranks;
  spec.batch = batch;
  spec.scaling = scaling;
  return spec;
}

std::vector<int64_t> ids_of(const std::vector<Batch>& micro) {
  std::vector<int64_t> ids;
  for (const Batch& batch : micro)
    for (int64_t i = 0; i < batch.samples(); ++i) ids.push_back(batch.ids[i].item<int64_t>());
  return ids;
}

std::unique_ptr<Workload> hundred_samples() { return workload_registry().at("random-linear").make({}); }

std::vector<int64_t> batches_of(const TrainSource& source) {
  std::vector<int64_t> samples;
  for (int64_t step = 0; step < source.steps_per_epoch(); ++step) samples.push_back(source.samples(step));
  return samples;
}

TEST(TrainSource, SplitsAnEpochIntoTheStepSizesOfPyTorchWithAndWithoutDropLast) {
  const auto workload = hundred_samples();
  const auto samples = [&](const CaseSpec& spec, bool drop_last) {
    return batches_of(TrainSource(*workload, spec, {}, drop_last, 0));
  };
  EXPECT_EQ(samples(case_on_ranks(1, 30, Scaling::strong), false), (std::vector<int64_t>{30, 30, 30, 10}));
  EXPECT_EQ(samples(case_on_ranks(1, 30, Scaling::strong), true), (std::vector<int64_t>{30, 30, 30}));
  EXPECT_EQ(samples(case_on_ranks(2, 15, Scaling::weak), false), (std::vector<int64_t>{30, 30, 30, 10}));
  EXPECT_EQ(samples(case_on_ranks(3, 30, Scaling::strong), false), (std::vector<int64_t>{30, 30, 30, 12}))
      << "padded to 102";
  EXPECT_EQ(samples(case_on_ranks(3, 30, Scaling::strong), true), (std::vector<int64_t>{30, 30, 30}));
  EXPECT_EQ(samples(case_on_ranks(4, 30, Scaling::strong), false), (std::vector<int64_t>{32, 32, 32, 4}))
      << "8 samples per rank";
  EXPECT_EQ(samples(case_on_ranks(1, 64, Scaling::weak), false), (std::vector<int64_t>{64, 36}));
  EXPECT_EQ(samples(case_on_ranks(1, 200, Scaling::weak), false), (std::vector<int64_t>{100}));
  EXPECT_THROW(samples(case_on_ranks(1, 200, Scaling::weak), true), UsageError);
}

TEST(TrainSource, SplitsAStepIntoTheRequestedMicroBatchesOrOnePerSample) {
  const auto workload = hundred_samples();
  CaseSpec spec = case_on_ranks(1, 14, Scaling::strong);
  spec.accumulate = 4;
  const TrainSource source(*workload, spec, {}, false, 0);
  const auto micros = [&](int64_t step) {
    std::vector<int64_t> samples;
    for (const Batch& batch : source.at(step)) samples.push_back(batch.samples());
    return samples;
  };
  EXPECT_EQ(micros(0), (std::vector<int64_t>{4, 4, 3, 3}));
  EXPECT_EQ(micros(7), (std::vector<int64_t>{1, 1})) << "two samples are left";
}

TEST(TrainSource, AllRanksTogetherGetTheSameSamplesInAStepAsASingleDevice) {
  const auto workload = hundred_samples();
  TrainSource whole(*workload, case_on_ranks(1, 20, Scaling::strong), {}, false, 0);
  for (const int64_t epoch : {0, 3}) {
    whole.set_epoch(epoch);
    for (int64_t step = 0; step < whole.steps_per_epoch(); ++step) {
      const auto all = ids_of(whole.at(step));
      std::multiset<int64_t> assigned;
      for (int rank = 0; rank < 2; ++rank) {
        TrainSource source(*workload, case_on_ranks(2, 10, Scaling::weak), {}, false, rank);
        source.set_epoch(epoch);
        for (const int64_t id : ids_of(source.at(step))) assigned.insert(id);
      }
      EXPECT_EQ(assigned, std::multiset<int64_t>(all.begin(), all.end())) << step;
    }
  }
}

TEST(TrainSource, ReshufflesEveryEpochOnlyIfTheTrainingRecipeSaysSo) {
  const auto workload = hundred_samples();
  TrainSource shuffled(*workload, case_on_ranks(1, 50, Scaling::strong), {.shuffle = true}, false, 0);
  const auto first = ids_of(shuffled.at(0));
  shuffled.set_epoch(1);
  EXPECT_NE(ids_of(shuffled.at(0)), first);
  shuffled.set_epoch(0);
  EXPECT_EQ(ids_of(shuffled.at(0)), first);
  const TrainSource plain(*workload, case_on_ranks(2, 5, Scaling::weak), {.shuffle = false}, false, 1);
  EXPECT_EQ(ids_of(plain.at(1)), (std::vector<int64_t>{11, 13, 15, 17, 19}));
}

TEST(TrainLines, PrintedLinesMatchThoseOfTheProgramsThatTheWorkloadsFollow) {
  EXPECT_EQ(tutorial_greeting({Device::cpu, 4}), std::vector<std::string>{"Let's use 4 devices!"});
  EXPECT_EQ(tutorial_greeting({Device::cuda, 4}), std::vector<std::string>{"Let's use 4 GPUs!"});
  EXPECT_EQ(tutorial_greeting({Device::cuda, 1}), std::vector<std::string>{});
  const std::vector<int64_t> in = {8, 5}, out = {8, 2}, images = {1, 1, 28, 28};
  EXPECT_EQ(in_model_line(in, out), "In Model: input size [8, 5] output size [8, 2]");
  EXPECT_EQ(outside_line(in, out), "Outside: input size [8, 5] output_size [8, 2]");
  EXPECT_EQ(memo_line({.epoch = 0, .total = 2133.64951}), "  0: 2133.6495");
  EXPECT_EQ(memo_line({.epoch = 12, .total = 0.00004}), " 12: 0.0000");
  EXPECT_EQ(guide_greeting({Device::cuda, 8}, 60000, images),
            (std::vector<std::string>{"Running on 8 GPUs", "x_train shape: (60000, 28, 28, 1)"}));
  EXPECT_EQ(guide_line({.epoch = 0, .epochs = 2, .mean = 0.25}), "Epoch 1/2, Loss: 0.25");
}

// The expected texts are Python 3's output for the same floats.
TEST(TrainLines, FormatFloatsLikePython) {
  const std::vector<std::pair<double, std::string>> cases = {{0, "0.0"},
                                                             {2, "2.0"},
                                                             {-1.5, "-1.5"},
                                                             {0.1, "0.1"},
                                                             {1.0 / 3, "0.3333333333333333"},
                                                             {1e-4, "0.0001"},
                                                             {1e-5, "1e-05"},
                                                             {1.25e-7, "1.25e-07"},
                                                             {1e15, "1000000000000000.0"},
                                                             {1e16, "1e+16"},
                                                             {1.5e300, "1.5e+300"},
                                                             {std::numeric_limits<double>::infinity(), "inf"},
                                                             {std::numeric_limits<double>::quiet_NaN(), "nan"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(python_float(value), text);
}

TEST(LogOfTensorShapes, ReturnsShapesInTheOrderOfTheSamples) {
  ShapeLog log;
  log.add({.first_id = at::tensor({int64_t{40}}), .input = {2}, .output = {}});
  log.add({.first_id = at::tensor({int64_t{7}}), .input = {1}, .output = {}});
  log.add({.first_id = at::tensor({int64_t{3}}), .input = {3}, .output = {}});
  const auto shapes = log.take(at::tensor({7, 8, 40, 41, 3}, at::kLong));
  ASSERT_EQ(shapes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(shapes[i].input[0], static_cast<int64_t>(i + 1));
  EXPECT_TRUE(log.take(at::tensor({7}, at::kLong)).empty());
}

TEST(LogOfTensorShapes, DoesNotChangeTheModel) {
  const auto workload = workload_registry().at("convnet").make({});
  ShapeLog log;
  const auto recording = shape_recording_workload(*workload, log);
  const auto plain = workload->model(3), recorded = recording->model(3);
  const auto names = [](const auto& items) {
    std::vector<std::string> keys;
    for (const auto& item : items) keys.push_back(item.key());
    return keys;
  };
  EXPECT_EQ(names(recorded->named_parameters()), names(plain->named_parameters()));
  EXPECT_EQ(names(recorded->named_buffers()), names(plain->named_buffers()));
  const at::Tensor ids = at::arange(4), input = at::rand({4, 1, 28, 28});
  for (const bool training : {true, false}) {
    plain->train(training);
    recorded->train(training);
    EXPECT_TRUE(
        at::equal(recorded->forward(input, {.seed = 1, .ids = ids}), plain->forward(input, {.seed = 1, .ids = ids})));
    EXPECT_EQ(log.take(ids).size(), training ? 1u : 0u) << "evaluation is not recorded";
  }
}

TEST(Checkpoint, IsReadBackAsItWasWrittenAndRefusedForAnotherRun) {
  const std::string path = ::testing::TempDir() + "dpbench-checkpoint-" + std::to_string(getpid());
  const RunIdentity identity = {{"workload", "toy"}, {"seed", "1"}};
  const Checkpoint saved{{.parameters = {{"w", at::rand({2, 3})}},
                          .buffers = {{"mean", at::rand({3})}},
                          .state = {{"w.step", at::scalar_tensor(5)}}},
                         {.epoch = 1,
                          .step = 2,
                          .seconds = 0.1,
                          .running = {{1.5, 1.0 / 3}, {2.5, 0}},
                          .epoch_losses = {7},
                          .loss_curve = {1, 2, 3, 4},
                          .accuracy = {0.5}}};
  save_checkpoint(path, identity, saved);
  const Checkpoint loaded = load_checkpoint(path, identity, 4);
  EXPECT_TRUE(at::equal(loaded.snapshot.parameters.at(0).second, saved.snapshot.parameters[0].second));
  EXPECT_EQ(loaded.snapshot.buffers.at(0).first, "mean");
  EXPECT_EQ(loaded.snapshot.state.at(0).first, "w.step");
  EXPECT_EQ(loaded.state.epoch, 1);
  EXPECT_EQ(loaded.state.step, 2);
  EXPECT_EQ(loaded.state.seconds, 0.1);
  EXPECT_EQ(loaded.state.running, saved.state.running);
  EXPECT_EQ(loaded.state.loss_curve, saved.state.loss_curve);
  EXPECT_EQ(loaded.state.epoch_losses, saved.state.epoch_losses);
  EXPECT_EQ(loaded.state.accuracy, saved.state.accuracy);
  EXPECT_THROW(load_checkpoint(path, {{"workload", "other"}}, 4), UsageError);
  EXPECT_THROW(load_checkpoint(path, identity, 2), UsageError) << "step 2 is outside an epoch of 2 steps";
  EXPECT_THROW(load_checkpoint(path, identity, 5), UsageError) << "the loss curve is too short for epochs of 5 steps";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace dpbench
