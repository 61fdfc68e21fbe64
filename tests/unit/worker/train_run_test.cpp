// Complete training runs on 20 samples. Ranks are threads of this process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

#include "harness/worker/train/epoch_checks.h"
#include "harness/worker/train/train.h"
#include "tests/support/around.h"
#include "tests/support/contains.h"
#include "tests/support/idx_files.h"
#include "workloads/data/sampler.h"

namespace dpbench {
namespace {

CaseSpec case_of(const std::string& strategy, const std::string& workload, int ranks, const Mnist& files) {
  CaseSpec spec;
  spec.id = "case";
  spec.strategy = strategy;
  spec.workload = workload;
  spec.world = spec.processes = ranks;
  spec.backend = ranks == 1 ? "none" : "threads";
  spec.batch = 8;
  spec.scaling = Scaling::strong;
  spec.data_dir = files.folder.text();
  return spec;
}

void run_on_threads(int ranks, const std::function<void(const Group&, Pulse&)>& work) {
  const Folder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Variables variables;
      variables.rank = variables.local_rank = rank;
      variables.world = variables.local_world = ranks;
      variables.run_dir = folder.text();
      variables.group = "group";
      variables.backend = ranks == 1 ? "none" : "threads";
      variables.device = Device::cpu;
      const Group group(variables);
      Pulse pulse("", rank);
      work(group, pulse);
    });
  for (auto& thread : threads) thread.join();
}

using OptionsOf = std::function<TrainOptions(int rank)>;

// Runs the training on threads. Returns the result of rank 0 and appends the lines that it prints to `lines`.
TrainResult trained(const CaseSpec& spec, const OptionsOf& options_of, std::vector<std::string>* lines = nullptr) {
  TrainResult rank0_result;
  run_on_threads(spec.processes, [&](const Group& group, Pulse& pulse) {
    const auto say = [&](const Json& event) {
      EXPECT_EQ(group.rank(), 0) << event;
      if (lines && event.at("event") == "line") lines->push_back(event.at("text"));
    };
    const TrainOptions options = options_of(group.rank());
    TrainResult result = train_case(spec, options, group, pulse, "", say);
    if (group.rank() == 0) rank0_result = std::move(result);
  });
  return rank0_result;
}

OptionsOf epochs(int64_t count) {
  return [count](int) {
    TrainOptions options;
    options.epochs = count;
    return options;
  };
}

// The strategy ddp, except that `corrupt` changes its state on rank 1 after every step.
class Drifting : public Around {
 public:
  using Corrupt = void (*)(Strategy& ddp);
  Drifting(const Setup& setup, Corrupt corrupt)
      : Around(strategy_registry().at("ddp").make(setup)),
        corrupt_(setup.mesh.group()->getRank() == 1 ? corrupt : nullptr) {}
  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result = inner_->step(step, micro, phases);
    if (corrupt_) corrupt_(*inner_);
    return result;
  }

 private:
  Corrupt corrupt_;
};

template <Drifting::Corrupt kCorrupt>
std::unique_ptr<Strategy> make_drifting(const Setup& setup) {
  return std::make_unique<Drifting>(setup, kCorrupt);
}

void change_parameter(Strategy& ddp) { ddp.parameters()[0].second.detach().add_(1e-6); }
// Changes Adam's step count, which affects the parameters so little that they stay equal in float32 for many steps.
void change_optimizer_state(Strategy& ddp) { ddp.state().back().second.add_(1e6); }

const RegisterStrategy drifting{{.name = "drifting",
                                 .summary = "ddp with a drifting parameter",
                                 .params = strategy_registry().at("ddp").params,
                                 .make = make_drifting<change_parameter>}};
const RegisterStrategy forgetful{{.name = "forgetful",
                                  .summary = "ddp with a drifting optimizer state",
                                  .params = strategy_registry().at("ddp").params,
                                  .make = make_drifting<change_optimizer_state>}};

const RegisterStrategy replayed{{.name = "replayed",
                                 .summary = "declares that its steps are replayed",
                                 .parallelism = Parallelism::single,
                                 .params = strategy_registry().at("cpu").params,
                                 .make = [](const Setup& setup) { return strategy_registry().at("cpu").make(setup); },
                                 .recorded = true}};

TEST(Train, RefusesToPrintTensorShapesIfStepsAreReplayedFromARecording) {
  const Mnist files;
  TrainOptions options;
  options.epochs = 1;
  options.show_shapes = true;
  Variables alone;
  alone.backend = "none";
  alone.device = Device::cpu;
  const Group group(alone);
  Pulse pulse("", 0);
  const auto train = [&](const char* strategy) {
    return train_case(case_of(strategy, "mnist-mlp", 1, files), options, group, pulse, "", [](const Json&) {});
  };
  EXPECT_GT(train("cpu").training.steps, 0);
  EXPECT_THROW(train("replayed"), UsageError);
}

TEST(Train, StopsWhenParametersDifferBetweenRanks) {
  const Mnist files;
  std::vector<std::string> lines;
  const TrainResult good = trained(case_of("ddp", "mnist-mlp", 2, files), epochs(3), &lines);
  EXPECT_TRUE(good.checks.empty());
  EXPECT_EQ(good.training.steps, 9);
  EXPECT_EQ(lines.size(), 3u) << "three epochs";
  const TrainResult drifted = trained(case_of("drifting", "mnist-mlp", 2, files), epochs(3));
  ASSERT_EQ(drifted.checks.size(), 1u);
  EXPECT_EQ(drifted.checks[0].name, "equal-ranks");
  EXPECT_EQ(drifted.checks[0].status, CheckStatus::failed);
  expect_contains(drifted.checks[0].detail, {"epoch 0", "rank 1", "rank 0"});
  EXPECT_EQ(drifted.training.steps, 3) << "no further epoch";
}

TEST(Train, StopsWhenOptimizerStatesDifferBetweenRanks) {
  const Mnist files;
  CaseSpec spec = case_of("forgetful", "convnet", 2, files);
  // with one step per epoch, only the state differs: it drifts after the step, so parameters still agree
  spec.batch = 20;
  const TrainResult drifted = trained(spec, epochs(2));
  ASSERT_EQ(drifted.checks.size(), 1u);
  EXPECT_EQ(drifted.checks[0].name, "equal-ranks");
  EXPECT_EQ(drifted.training.steps, 1);
  spec.strategy = "ddp";
  EXPECT_TRUE(trained(spec, epochs(2)).checks.empty());
}

// Takes one step of SGD with the learning rate of the training program that mnist-mlp follows. Returns the loss.
double plain_step(Model& model, const at::Tensor& loss) {
  model.zero_grad();
  loss.backward();
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model.parameters()) parameter.sub_(parameter.grad(), 1e-3);
  return loss.item<double>();
}

// The expected loss of every step comes from the training loop of the program that mnist-mlp follows, written out here.
TEST(Train, LossesMatchAPlainTrainingLoopOverTwoShuffledEpochs) {
  const Mnist files;
  const CaseSpec spec = case_of("cpu", "mnist-mlp", 1, files);
  const auto workload = workload_registry().at("mnist-mlp").make({.data_dir = spec.data_dir});
  workload->prepare(at::arange(20));
  const auto model = workload->model(spec.seed);
  std::vector<double> losses;
  for (const int64_t epoch : {0, 1})
    for (const at::Tensor& ids : epoch_order(20, spec.seed, epoch, /*shuffle=*/true).split(8)) {
      const Batch batch = workload->batch(ids.contiguous());
      const at::Tensor loss = workload->loss(model->forward(batch.input, {1, 0, batch.ids}), batch.target);
      losses.push_back(plain_step(*model, loss));
    }
  const std::vector<double> curve = trained(spec, epochs(2)).training.loss_curve;
  ASSERT_EQ(curve.size(), losses.size());
  for (size_t i = 0; i < curve.size(); ++i) EXPECT_NEAR(curve[i], losses[i], 1e-6) << i;
}

// Three ranks split 20 samples into 3 per rank and step: steps of 9, 9 and 3 samples. The sampler repeats one sample in
// the last step.
TEST(Train, LossOfAShortStepIsTheMeanOverTheSamplesOfAllRanks) {
  const Mnist files;
  const CaseSpec spec = case_of("ddp", "mnist-mlp", 3, files);
  const auto workload = workload_registry().at("mnist-mlp").make({.data_dir = spec.data_dir});
  workload->prepare(at::arange(20));
  const auto model = workload->model(spec.seed);
  model->to(at::kDouble);
  std::vector<double> losses;
  for (const int64_t epoch : {0, 1})
    for (const int64_t step : {0, 1, 2}) {
      std::vector<at::Tensor> ids;
      for (int rank = 0; rank < 3; ++rank) {
        DistributedSampler sampler({.samples = 20, .world = 3, .rank = rank, .seed = spec.seed});
        sampler.set_epoch(epoch);
        ids.push_back(sampler.indices().slice(0, 3 * step, std::min<int64_t>(3 * step + 3, sampler.size())));
      }
      const Batch batch = workload->batch(at::cat(ids));
      const at::Tensor loss =
          workload->loss(model->forward(batch.input.to(at::kDouble), {1, 0, batch.ids}), batch.target);
      losses.push_back(plain_step(*model, loss));
    }
  const TrainingRecord training = trained(spec, epochs(2)).training;
  ASSERT_EQ(training.loss_curve.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(training.loss_curve[i], losses[i], 1e-6) << i;
  for (size_t e = 0; e < 2; ++e)  // the training program that mnist-mlp follows sums the loss over steps and ranks
    EXPECT_NEAR(training.epoch_losses[e], 3 * (losses[3 * e] + losses[3 * e + 1] + losses[3 * e + 2]), 2e-5) << e;
}

// The Keras guide, which convnet follows, averages the epoch's loss over steps, regardless of their sizes.
TEST(Train, EpochLossOfConvnetIsTheMeanOverSteps) {
  const Mnist files;
  const TrainingRecord training = trained(case_of("ddp", "convnet", 2, files), epochs(1)).training;
  ASSERT_EQ(training.loss_curve.size(), 3u) << "8, 8 and 4 samples";
  EXPECT_DOUBLE_EQ(training.epoch_losses[0],
                   (training.loss_curve[0] + training.loss_curve[1] + training.loss_curve[2]) / 3);
}

TEST(Train, ShufflesTheSamplesOfMnistMlpButNotThoseOfConvnet) {
  EXPECT_TRUE(workload_registry().at("mnist-mlp").recipe.shuffle);
  EXPECT_FALSE(workload_registry().at("convnet").recipe.shuffle);
}

TEST(Train, SavesTheModelOnlyOnRankZero) {
  const Mnist files;
  const Folder out;
  const auto path = [&](int rank) { return out / ("model" + std::to_string(rank)); };
  trained(case_of("ddp", "mnist-mlp", 2, files), [&](int rank) {
    TrainOptions options = epochs(1)(rank);
    options.save = path(rank).string();
    return options;
  });
  EXPECT_TRUE(fs::exists(path(0)));
  EXPECT_FALSE(fs::exists(path(1)));
}

// A strategy that classifies every sample correctly with the buffer of rank 0, and wrongly with the buffer of another
// rank.
class BufferedClassifier : public Strategy {
 public:
  explicit BufferedClassifier(int rank) : buffer_(at::full({1}, static_cast<double>(rank))) {}
  StepResult step(int64_t, std::span<const Batch>, Phases&) override { return {}; }
  at::Tensor forward(const Batch& batch) override {
    return at::one_hot(buffer_.item<double>() == 0 ? batch.target : (batch.target + 1) % 10, 10);
  }
  NamedTensors parameters() override { return {}; }
  NamedTensors gradients() override { return {}; }
  NamedTensors buffers() override { return {{"buffer", buffer_}}; }
  NamedTensors state() override { return {}; }

 private:
  at::Tensor buffer_;
};

TEST(Evaluation, CountsEachSampleOnceWithTheBuffersOfRankZero) {
  const Mnist files;
  const auto workload = workload_registry().at("mnist-mlp").make({.data_dir = files.folder.text()});
  run_on_threads(3, [&](const Group& group, Pulse& pulse) {
    BufferedClassifier strategy(group.rank());
    const Accuracy found = evaluate(strategy, *workload, group, pulse);
    EXPECT_EQ(found.classes, 5);
    EXPECT_EQ(found.right, 5) << "of 5 samples on 3 ranks, at rank " << group.rank();
  });
}

}  // namespace
}  // namespace dpbench
