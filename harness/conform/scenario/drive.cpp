#include "harness/conform/scenario/drive.h"

#include <algorithm>
#include <exception>
#include <future>
#include <iterator>
#include <numeric>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include "harness/conform/evidence/agreeing_backend.h"
#include "harness/conform/evidence/exception_text.h"
#include "harness/conform/evidence/live_memory.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/evidence/watching_backends.h"
#include "harness/conform/probes/drawn.h"
#include "harness/conform/scenario/altered_workload.h"
#include "harness/conform/scenario/other_state.h"
#include "strategies/api/parts/activation.h"

namespace dpbench {
namespace {

NamedTensors snapshot(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.defined()
                                  ? tensor.detach().to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true)
                                  : at::Tensor());
  return copies;
}

at::Tensor snapshot(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true) : at::Tensor();
}

// Makes buffers differ between ranks so that a missing broadcast is detected. If every rank keeps its own buffers,
// integer buffers stay unchanged, because they may be indices.
void perturb_buffers(Model& model, int rank, Buffers meaning) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.named_buffers()) {
    at::Tensor& buffer = item.value();
    if (buffer.is_floating_point())
      buffer.mul_(1 + 0.25 * rank).add_(0.125 * rank);
    else if (at::isIntegralType(buffer.scalar_type(), /*includeBool=*/false) && meaning != Buffers::local)
      buffer.add_(rank);
  }
}

Batch copy_of(const Batch& batch) {
  const auto copy = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; };
  return {copy(batch.input), copy(batch.target), copy(batch.ids)};
}

std::string first_modified(const std::vector<Batch>& before, const std::vector<Batch>& after) {
  for (size_t k = 0; k < before.size(); ++k) {
    const auto of_micro = " of micro-batch " + std::to_string(k);
    if (!same_bits(before[k].input, after[k].input)) return "input" + of_micro;
    if (!same_bits(before[k].target, after[k].target)) return "target" + of_micro;
    if (!same_bits(before[k].ids, after[k].ids)) return "ids" + of_micro;
  }
  return "";
}

// Returns the first gradient that breaks torch's rule for .grad: a gradient has its parameter's strides if those are
// dense, otherwise it is row-major contiguous.
std::string first_wrong_strides(const NamedTensors& gradients, const NamedTensors& parameters) {
  for (const auto& [name, gradient] : gradients) {
    const at::Tensor* parameter = find(parameters, name);
    if (!parameter || !gradient.defined() || gradient.layout() != at::kStrided) continue;
    if (gradient.sizes() != parameter->sizes() || torch::autograd::utils::obeys_layout_contract(gradient, *parameter))
      continue;
    return name + ", the parameter has strides " + c10::str(parameter->strides()) + ", its gradient " +
           c10::str(gradient.strides());
  }
  return "";
}

// The process groups with which a strategy runs a scenario. Unless the scenario is unwatched, they record the
// collectives of each step and stop a rank that calls other collectives than its peers.
class ScenarioGroups {
 public:
  ScenarioGroups(const Bench& bench, const Scenario& scenario, LiveMemory& live)
      : bench_(bench), mesh_(scenario.unwatched ? bench.mesh : Mesh{}) {
    if (!scenario.unwatched && bench.distribution.parallelism == Parallelism::ranks) watch(scenario, live);
  }

  const Mesh& mesh() const { return mesh_; }

  void start_recording(bool keep) {
    recording_ = keep;
    for (const auto& recorder : recorders_) recorder->start(keep);
  }

  std::vector<Collective> stop_recording() {
    recording_.reset();
    std::vector<Collective> all;
    for (const auto& recorder : recorders_) std::ranges::move(recorder->stop(), std::back_inserter(all));
    return all;
  }

  void begin_step(int64_t step) {
    for (const auto& one : agreeing_) one->begin_step(step);
  }

  void step_returned() {
    for (const auto& recorder : recorders_) recorder->step_returned();
  }

  bool diverged() const {
    return std::ranges::any_of(agreeing_, [](const auto& one) { return one->diverged(); });
  }

  // Tells all groups at the same time that this rank makes no more calls. One group after the other could deadlock,
  // because ranks of one group may wait for this rank in another group.
  void finish(const std::string& how) {
    std::vector<std::future<void>> ends;
    for (const auto& one : agreeing_) ends.push_back(std::async(std::launch::async, [&] { one->finish(how); }));
    for (const auto& one : late_) one->settle();
  }

  // Waits for all ranks. If a rank skipped a collective, the backend can detect the mismatch here.
  // ProcessGroup::barrier() is not used, because ranks that are threads would share its static tensor.
  void meet() const {
    if (!mesh_.group() || mesh_.group()->getSize() == 1) return;
    std::vector<at::Tensor> nothing = {at::zeros({1}, bench_.devices.at(0))};
    mesh_.group()->allreduce(nothing)->wait();
  }

 private:
  void watch(const Scenario& scenario, LiveMemory& live) {
    const bool plain = is_plain(bench_.distribution.mesh);
    mesh_ = bench_.mesh.with_groups([&](const std::string& axis, const auto& group) {
      const std::string run = scenario.name + (plain ? "" : ", axis " + axis);
      return watched(scenario, live, axis, run, ranks_of_group(axis), group);
    });
    // The strategy may make groups later, so this function refers to nothing that ends before the strategy.
    mesh_.make_subgroups_by([this, &scenario, &live](const std::vector<int>& ranks, int number) {
      const std::string name = name_of_ranks(ranks);
      return watched(scenario, live, name, scenario.name + ", " + name, ranks, bench_.mesh.subgroup(ranks, number));
    });
  }

  // Returns a process group that watches the calls of `group`. axis: name of the group in the record. run: see
  // AgreeingBackend.
  c10::intrusive_ptr<c10d::ProcessGroup> watched(const Scenario& scenario, LiveMemory& live, const std::string& axis,
                                                 const std::string& run, const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const at::Device device = bench_.devices.at(0);
    return wrapped_group(group, device.type(), [&](c10::intrusive_ptr<c10d::Backend> inner) {
      // The ranks' order of collectives is not compared in two cases: delayed collectives start on another thread at
      // an unknown step, and a strategy that records its steps for a later replay must not block while recording.
      if (scenario.late) {
        late_.push_back(c10::make_intrusive<LateBackend>(inner, bench_.seed));
        inner = late_.back();
      } else if (!bench_.strategy.recorded) {
        agreeing_.push_back(c10::make_intrusive<AgreeingBackend>(inner, device, run, ranks));
        inner = agreeing_.back();
      }
      if (bench_.strategy.live_parameters) inner = live.measuring(inner);
      recorders_.push_back(c10::make_intrusive<RecordingBackend>(inner, axis));
      if (recording_) recorders_.back()->start(*recording_);
      return c10::intrusive_ptr<c10d::Backend>(recorders_.back());
    });
  }

  // Returns the ranks of this rank's group on an axis or its parts; all ranks for world_axis.
  std::vector<int> ranks_of_group(const std::string& axis) const {
    for (const auto& [name, groups] : named_groups(bench_.distribution.mesh_of_ranks()))
      for (const auto& ranks : groups)
        if (name == axis && std::ranges::count(ranks, bench_.rank) > 0) return ranks;
    std::vector<int> everyone(static_cast<size_t>(bench_.distribution.owners()));
    std::iota(everyone.begin(), everyone.end(), 0);
    return everyone;
  }

  const Bench& bench_;
  // backends that record the collectives of this rank, one for each process group
  std::vector<c10::intrusive_ptr<RecordingBackend>> recorders_;
  std::vector<c10::intrusive_ptr<AgreeingBackend>> agreeing_;
  std::vector<c10::intrusive_ptr<LateBackend>> late_;
  std::optional<bool> recording_;  // between start_recording() and stop_recording(): the former's argument
  Mesh mesh_;
};

class Driver {
 public:
  Driver(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm)
      : bench_(bench), scenario_(scenario), clip_norm_(clip_norm), groups_(bench, scenario, live_) {}

  Evidence run() {
    evidence_.rank = bench_.rank;
    TypeFindings types;
    try {
      drive();
    } catch (const UnsuitableModel& error) {
      record_refusal(error, Refusal::model);
    } catch (const UsageError& error) {
      record_refusal(error, Refusal::scenario);
    } catch (const Unavailable& error) {
      record_refusal(error, Refusal::scenario);
    } catch (const std::exception& error) {
      if (out_of_memory(error)) abort_run();
      if (lacks_operation(error)) evidence_.refusal = Refusal::scenario;
      record_failure(message_of(error));
    }
    evidence_.wrong_type = types.mistake;
    evidence_.typed = types.typed;
    groups_.finish(evidence_.error.empty() ? "all steps done" : "gave up: " + evidence_.error);
    return std::move(evidence_);
  }

 private:
  // Rethrows an out-of-memory error: it fails the whole run, not a check of the strategy.
  [[noreturn]] void abort_run() {
    groups_.finish("gave up: out of memory");
    throw;
  }

  void record_refusal(const std::exception& error, Refusal refusal) {
    evidence_.error = error.what();
    evidence_.refusal = refusal;
  }

  void record_failure(const std::string& why) {
    evidence_.error = why;
    evidence_.interrupted = bench_.distribution.owners() > 1 && !evidence_.refused();
    evidence_.echo = groups_.diverged();
  }

  std::unique_ptr<Strategy> make(const Workload& workload) const {
    return bench_.strategy.make({.workload = workload,
                                 .devices = bench_.devices,
                                 .mesh = groups_.mesh(),
                                 .init_seed = bench_.init_seed(bench_.rank),
                                 .step_seed = bench_.step_seed(),
                                 .dtype = scenario_.dtype,
                                 .params = params_of(bench_, scenario_),
                                 .accumulate = scenario_.accumulate,
                                 .clip_norm = clip_norm_,
                                 .allows_idle = bench_.allows_idle});
  }

  void enter(const std::string& part) const {
    if (bench_.enters) bench_.enters(part + " of scenario " + scenario_.name);
  }

  void drive() {
    enter("set-up");
    scenario_.unwatched ? drive_unwatched() : drive_watched();
  }

  // Runs the steps as a timed run does: reads only the loss after each step, and all other tensors after the last one.
  // After one step, drawn from the first half, the accessors are called too, as between the blocks of a timed run.
  void drive_unwatched() {
    evidence_.parameters = initial_parameters(bench_, bench_.rank, scenario_.dtype);
    evidence_.buffers = initial_buffers(bench_, bench_.rank, scenario_.dtype);
    const auto strategy = make(bench_.workload);
    // In a run of fewer than 8 steps the accessors are not called in between: the run would end before a mistake that
    // begins some steps after such a call.
    const int64_t look_after = scenario_.steps < 8 ? -1 : drawn(bench_.seed, 16, 0, scenario_.steps / 2 - 1);
    for (int64_t step = 0; step < scenario_.steps; ++step) {
      enter("step " + std::to_string(step));
      StepEvidence seen{.ids = ids_of(scenario_, bench_.distribution, bench_.seed, step, bench_.rank)};
      std::vector<Batch> micro;
      for (const auto& ids : seen.ids)
        micro.push_back(bench_.strategy.loads_samples ? Batch{{}, {}, ids} : bench_.workload.batch(ids));
      Phases phases;
      const StepResult result = strategy->step(step, micro, phases);
      seen.loss = snapshot(result.loss);
      if (step == look_after) call_accessors(*strategy);
      if (step + 1 == scenario_.steps) copy_all(*strategy, result, seen);
      evidence_.steps.push_back(std::move(seen));
    }
    groups_.meet();
    enter("finish()");
    strategy->finish();
  }

  void drive_watched() {
    AlteredWorkload workload(bench_.workload, [&](Model& model) {
      perturb_buffers(model, bench_.rank, bench_.strategy.buffers);
      live_.watch(model.shared_from_this());
    });
    if (bench_.strategy.live_parameters) workload.watch_losses([this] { live_.measure(); });
    std::shared_ptr<Strategy> strategy = make(workload);
    // in this scenario, the state is loaded into a strategy object that has already trained
    if (scenario_.other_state) {
      one_step(strategy, 1);
      evidence_.steps.clear();
      evidence_.steps_before = 1;
    }
    Snapshot start{snapshot(strategy->parameters()), snapshot(strategy->buffers()), snapshot(strategy->state())};
    if (scenario_.other_state) strategy->load(start = other_state(bench_, scenario_, std::move(start.state)));
    if (scenario_.first > 0 && !scenario_.other_state) age(strategy, workload, start);
    evidence_.parameters = start.parameters;
    evidence_.buffers = start.buffers;
    evidence_.state = start.state;
    for (int64_t step = 0; step < scenario_.steps; ++step) {
      if (step > 0 && step == scenario_.reload_before) {
        strategy.reset();
        strategy = make(workload);
        const StepEvidence& last = evidence_.steps.back();
        strategy->load({last.parameters, last.buffers, last.state});
      }
      one_step(strategy, step);
      const bool last = step + 1 == scenario_.steps && !scenario_.perturbed;
      if (last || (step == 0 && scenario_.evaluates_between)) evaluate(*strategy, step);
    }
    enter("finish()");
    strategy->finish();
    evidence_.last_parameters = snapshot(strategy->parameters());
    evidence_.last_buffers = snapshot(strategy->buffers());
    evidence_.last_state = snapshot(strategy->state());
    const LiveBytes most = live_.most();
    evidence_.stored_parameter_bytes = most.kept;
    evidence_.live_parameter_bytes = most.parameters;
    evidence_.live_gather_bytes = most.gathers;
  }

  // Takes as many steps as Scenario::first and then loads the initial state again, because a mistake may depend on the
  // number of steps that a strategy object has taken. Takes no step if the optimizer has state that the strategy does
  // not report. If load() is unavailable, makes a new object.
  void age(std::shared_ptr<Strategy>& strategy, const Workload& workload, const Snapshot& start) {
    const OptimizerSpec optimizer = bench_.workload.optimizer();
    if (start.state.empty() && (optimizer.own || !state_slots(optimizer).empty())) return;
    for (int64_t step = -scenario_.first; step < 0; ++step) {
      one_step(strategy, step);
      evidence_.steps.clear();
    }
    try {
      strategy->load(start);
      evidence_.steps_before = scenario_.first;
    } catch (const Unavailable&) {
      strategy.reset();
      strategy = make(workload);
    }
  }

  void one_step(const std::shared_ptr<Strategy>& strategy, int64_t step) {
    enter("step " + std::to_string(scenario_.first + step));
    std::vector<Batch> micro;
    StepEvidence seen;
    seen.ids = ids_of(scenario_, bench_.distribution, bench_.seed, step, bench_.rank);
    for (const auto& ids : seen.ids)
      micro.push_back(batch_of(bench_.workload, scenario_, bench_.distribution, ids, bench_.rank, step));
    if (bench_.strategy.loads_samples && step % 2 == 1 && !scenario_.poison)
      for (Batch& batch : micro) batch = {{}, {}, batch.ids};
    // A strategy that records its steps (e.g. as a CUDA graph) cannot have reductions copied to the host during a step.
    const bool keep = scenario_.keep_reductions && !bench_.strategy.recorded;
    groups_.start_recording(keep && step == scenario_.steps - 1);
    groups_.begin_step(step);
    std::vector<Batch> given;
    for (const Batch& batch : micro) given.push_back(copy_of(batch));
    Phases phases;
    live_.in_step(strategy);
    const StepResult result = strategy->step(scenario_.first + step, micro, phases);
    live_.in_step(nullptr);
    groups_.step_returned();
    seen.loss = snapshot(result.loss);
    seen.modified_input = first_modified(given, micro);
    copy_all(*strategy, result, seen);
    seen.collectives = groups_.stop_recording();
    evidence_.steps.push_back(std::move(seen));
  }

  static void call_accessors(Strategy& strategy) {
    strategy.gradients();
    strategy.parameters();
    strategy.buffers();
    strategy.state();
  }

  static void copy_all(Strategy& strategy, const StepResult& result, StepEvidence& seen) {
    seen.output = snapshot(result.whole_output());
    const NamedTensors gradients = strategy.gradients(), parameters = strategy.parameters();
    seen.wrong_strides = first_wrong_strides(gradients, parameters);
    seen.gradients = snapshot(gradients);
    seen.parameters = snapshot(parameters);
    seen.buffers = snapshot(strategy.buffers());
    seen.state = snapshot(strategy.state());
  }

  void evaluate(Strategy& strategy, int64_t step) {
    enter("evaluation");
    const at::Tensor ids = evaluated_ids(scenario_, bench_.distribution, bench_.seed, step, bench_.rank,
                                         bench_.strategy.collective_evaluation);
    evaluate(strategy, step, ids);
    // A second evaluation of as many samples follows without a step in between, as when a whole data set is evaluated.
    if (scenario_.evaluates_between) evaluate(strategy, step, (ids + 1).remainder(bench_.distribution.samples));
  }

  void evaluate(Strategy& strategy, int64_t step, const at::Tensor& ids) {
    Evaluation seen{.step = step, .ids = ids, .output = {}, .buffers = {}};
    groups_.start_recording(false);
    seen.output = snapshot(strategy.forward(bench_.workload.batch(seen.ids)));
    seen.collectives = static_cast<int64_t>(groups_.stop_recording().size());
    seen.buffers = snapshot(strategy.buffers());
    evidence_.evaluations.push_back(std::move(seen));
  }

  const Bench& bench_;
  const Scenario& scenario_;
  std::optional<double> clip_norm_;
  LiveMemory live_;
  ScenarioGroups groups_;
  Evidence evidence_;
};

}  // namespace

Evidence drive(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm) {
  return Driver(bench, scenario, clip_norm).run();
}

std::string place_of_error(const Evidence& evidence, const Scenario& scenario) {
  return "rank " + std::to_string(evidence.rank) + ", step " + std::to_string(evidence.steps.size()) + ", scenario " +
         scenario.name;
}

}  // namespace dpbench
