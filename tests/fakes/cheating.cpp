// "cheating" is a correct data-parallel strategy, except for one way to cheat, chosen by --param cheating.how=.. Most
// ways are honest in the checks and cheat in timed steps; audits of the timed run must find them.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "strategies/api/trained.h"

namespace dpbench {
namespace {

constexpr int64_t steps_of_a_check = 100;  // no scenario of the checks has as many steps
// A strategy can count blocks. It knows their number if the user leaves --samples at a value that it expects.
constexpr int64_t expected_blocks = 100, steps_of_a_block = 60;
constexpr char until_the_last_block[] = "honest-from-the-last-block", no_state[] = "no-state";

// Data on which the strategy "cheating" bases its decision whether to cheat.
struct View {
  int64_t steps = 0;       // steps that the strategy has taken
  int64_t since_read = 0;  // steps since the harness last read the strategy's tensors
  // between_reads: steps between the last two reads of the parameters. since_parameters: steps since the last read of
  // the parameters.
  int64_t between_reads = 0, since_parameters = 0;
  // The strategy takes this many correct steps after the harness reads tensors: 2 to 5, drawn in each launch, equal on
  // all ranks.
  int64_t honest = 0;
  int64_t blocks = 0;   // number of times that the harness read tensors after a whole block of steps
  int64_t samples = 0;  // number of samples in this step
  double pause_s = 0;   // time since the strategy's previous step
  int world = 1;
};

// Returns true if the strategy cheats in this step.
using When = bool (*)(const View& view);
const std::map<std::string, When> skips_the_reduction = {
    {"late", [](const View& v) { return v.steps > steps_of_a_check; }},
    {"now-and-then", [](const View& v) { return v.steps > steps_of_a_check && v.steps % 7 == 0; }},
    {"when-not-read", [](const View& v) { return v.since_read > 1; }},
    {"when-not-read-for-long", [](const View& v) { return v.steps > steps_of_a_check && v.since_read > 3; }},
    {"when-fast", [](const View& v) { return v.steps > 4 && v.pause_s < 1e-4; }},
};
const std::map<std::string, When> skips_the_update = {
    {"no-late-update", [](const View& v) { return v.steps > steps_of_a_check; }},
    {"no-update-when-not-read", [](const View& v) { return v.since_read > 1; }},
    {"every-fourth-update-left-out", [](const View& v) { return v.steps > steps_of_a_check && v.steps % 4 == 0; }},
    {"no-update-from-third-step-after-a-look",
     [](const View& v) { return v.steps > steps_of_a_check && v.since_read > 2; }},
    {"no-update-from-a-drawn-step-after-a-look",
     [](const View& v) { return v.steps > steps_of_a_check && v.since_read > v.honest; }},
    {"no-update-long-after-a-look", [](const View& v) { return v.since_read > steps_of_a_check; }},
};
const std::map<std::string, When> halves_the_batch = {
    {"large-batches", [](const View& v) { return v.samples > 8; }},
    {"late-batches", [](const View& v) { return v.steps > steps_of_a_check; }},
    {"batches-unless-read-twice", [](const View& v) { return v.steps > steps_of_a_check && v.between_reads > 0; }},
    {until_the_last_block, [](const View& v) { return v.steps > steps_of_a_check && v.blocks < expected_blocks - 1; }},
};
// Ways to cheat by rounding to bfloat16. The rounding leaves each single parameter within its bound, so an audit must
// judge many parameters together.
const std::map<std::string, When> rounds = {
    {"rounded-gradients", [](const View& v) { return v.steps > steps_of_a_check; }},
    {"rounded-own-gradients", [](const View& v) { return v.steps > steps_of_a_check; }},
    {"rounded-updates", [](const View& v) { return v.steps > steps_of_a_check; }},
};

bool applies(const std::map<std::string, When>& ways, const std::string& how, const View& view) {
  const auto found = ways.find(how);
  return found != ways.end() && found->second(view);
}

class Cheating : public TrainedStrategy {
 public:
  Cheating(const Setup& setup, std::string how)
      : TrainedStrategy(setup), setup_(setup), how_(std::move(how)), group_(setup.mesh.group()) {
    view_.world = group_->getSize();
    std::vector<at::Tensor> sum = {at::full({1}, std::random_device{}() % 1000, at::kFloat)};
    group_->allreduce(sum)->wait();
    view_.honest = 2 + sum[0].item<int64_t>() % 4;
    if (how_ == "honest-copy") copy_ = std::make_unique<Cheating>(setup, "honest");
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (how_ == "when-asked" && view_.steps > steps_of_a_check) return postpone(step, micro, phases);
    ++view_.steps;
    if (copy_) copy_->step(step, micro, phases);
    return taken(step, micro, phases);
  }

  NamedTensors parameters() override {
    view_.between_reads = std::exchange(view_.since_parameters, 0);
    return copy_ ? copy_->parameters() : (read(), TrainedStrategy::parameters());
  }
  NamedTensors gradients() override { return copy_ ? copy_->gradients() : (read(), TrainedStrategy::gradients()); }
  NamedTensors buffers() override { return copy_ ? copy_->buffers() : (read(), TrainedStrategy::buffers()); }
  NamedTensors state() override {
    if (how_ == no_state && view_.steps > steps_of_a_check) return {};
    return copy_ ? copy_->state() : (read(), TrainedStrategy::state());
  }

 private:
  using Clock = std::chrono::steady_clock;

  StepResult taken(int64_t step, std::span<const Batch> micro, Phases& phases) {
    ++view_.since_read;
    ++view_.since_parameters;
    view_.samples = micro.front().samples();
    view_.pause_s = std::chrono::duration<double>(Clock::now() - last_).count();
    std::vector<Batch> used(micro.begin(), micro.end());
    if (applies(halves_the_batch, how_, view_))
      for (Batch& batch : used) batch = first_half(batch);
    StepResult result = passes(step, used, phases);
    phases.enter(Phase::communication);
    const bool cheats = applies(skips_the_reduction, how_, view_) || (copy_ && view_.steps > steps_of_a_check);
    const double rate = learning_rate(setup_.workload.optimizer(), step);
    for (const at::Tensor& parameter : trainable()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (how_ == "rounded-own-gradients") round(gradient, 1);
      reduce(gradient, !cheats);
      if (how_ == "rounded-gradients") round(gradient, 1);
      if (how_ == "rounded-updates") round(gradient, rate);
    }
    if (!applies(skips_the_update, how_, view_)) apply_gradients(step, phases);
    if (how_ == "last-element" && view_.steps > steps_of_a_check) freeze_last_element();
    last_ = Clock::now();
    return result;
  }

  static Batch first_half(const Batch& batch) {
    const int64_t samples = (batch.samples() + 1) / 2;
    return {batch.input.narrow(0, 0, samples), batch.target.narrow(0, 0, samples), batch.ids.narrow(0, 0, samples)};
  }

  // A cheating step also calls the allreduce but drops its result, so that the ranks' collectives still match and the
  // step time hardly changes.
  void reduce(at::Tensor& gradient, bool honest) {
    if (!gradient.defined()) return;
    std::vector<at::Tensor> sum = {honest ? gradient : gradient.clone()};
    group_->allreduce(sum)->wait();
    if (honest) gradient.div_(group_->getSize());
  }

  void round(at::Tensor& gradient, double factor) const {
    if (!gradient.defined() || !applies(rounds, how_, view_)) return;
    gradient.mul_(factor);
    gradient.copy_(gradient.to(at::kBFloat16)).div_(factor);
  }

  void freeze_last_element() {
    const at::NoGradGuard no_grad;
    at::Tensor flat = trainable().back().view(-1);
    if (!kept_.defined()) kept_ = flat[-1].clone();
    flat[-1].copy_(kept_);
  }

  // Cheats by returning a loss at once and postponing the training step to the next call of an accessor.
  StepResult postpone(int64_t step, std::span<const Batch> micro, Phases&) {
    ++view_.steps;
    auto& batches = postponed_.emplace_back(step, std::vector<Batch>{}).second;
    for (const Batch& batch : micro) batches.push_back({batch.input.clone(), batch.target.clone(), batch.ids.clone()});
    const at::Tensor output = TrainedStrategy::forward(micro.front());
    return {output, setup_.workload.loss(output, micro.front().target)};
  }

  void read() {
    Phases untimed;
    for (const auto& [step, batches] : std::exchange(postponed_, {})) taken(step, batches, untimed);
    if (view_.since_read == steps_of_a_block) ++view_.blocks;
    view_.since_read = 0;
  }

  const Setup setup_;
  std::string how_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  View view_;
  Clock::time_point last_ = Clock::now();
  at::Tensor kept_;
  std::unique_ptr<Cheating> copy_;
  std::vector<std::pair<int64_t, std::vector<Batch>>> postponed_;
};

std::string all_ways() {
  std::string names = "honest|honest-copy|last-element|when-asked";
  for (const auto* ways : {&skips_the_reduction, &skips_the_update, &halves_the_batch, &rounds})
    for (const auto& [name, when] : *ways)
      if (name != until_the_last_block) names += "|" + name;
  return names;
}

const RegisterStrategy cheating{
    {.name = "cheating",
     .summary = "averages gradients, but not always",
     .buffers = Buffers::local,
     .params = {{"how", "honest", "way to cheat", all_ways()}},
     .make = [](const Setup& setup) { return std::make_unique<Cheating>(setup, setup.params.text("how")); }}};

// A strategy of its own, because only launches of expected_blocks blocks of steps_of_a_block steps show this way.
const RegisterStrategy counting{
    {.name = "counting",
     .summary = "averages gradients of all samples only in the last block of a launch, whose number it knows",
     .buffers = Buffers::local,
     .params = {{"how", until_the_last_block, "way to cheat", until_the_last_block}},
     .make = [](const Setup& setup) { return std::make_unique<Cheating>(setup, setup.params.text("how")); }}};

// A strategy of its own, because it computes correctly.
const RegisterStrategy forgetful{
    {.name = "forgetful",
     .summary = "reports no optimizer state after the steps of the checks",
     .buffers = Buffers::local,
     .params = {{"how", no_state, "way to cheat", no_state}},
     .make = [](const Setup& setup) { return std::make_unique<Cheating>(setup, setup.params.text("how")); }}};

}  // namespace
}  // namespace dpbench
