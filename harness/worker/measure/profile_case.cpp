#include "harness/worker/measure/profile_case.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/report/export/trace.h"
#include "harness/worker/measure/collective_times.h"
#include "harness/worker/measure/collective_watch.h"
#include "harness/worker/measure/device_phases.h"
#include "harness/worker/measure/engine_watch.h"
#include "harness/worker/measure/kineto_trace.h"
#include "harness/worker/measure/ledger.h"
#include "harness/worker/measure/memory_watch.h"
#include "harness/worker/measure/step_flop.h"
#include "harness/worker/rank/core_use.h"

namespace dpbench {
namespace {

using Time = Phases::Clock::time_point;
// Untimed steps before the profiled ones: enough for DDP's Reducer to rebuild its buckets. The machine needs no further
// warm-up after the timed blocks of steps.
constexpr int64_t warmup_steps = 5;
constexpr int64_t max_steps = 500, traced_steps = 5;
// The FLOP count is averaged over an epoch of at most this many steps, because the last step of an epoch may have fewer
// samples. With longer epochs, the FLOP count is that of one step.
constexpr int64_t short_epoch = 16;

using Collectives = std::vector<TracedCollective>;

// Returns the collectives that have ended, with times since 1970.
Collectives traced(const std::deque<CollectiveLog::Call>& calls) {
  using std::chrono::nanoseconds, std::chrono::duration_cast;
  const int64_t offset = duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count() -
                         ns_of(Phases::Clock::now());
  Collectives all;
  for (const auto& one : calls)
    if (const Time end = one.end; end != Time{})
      all.push_back({one.op, one.axis, one.bytes, ns_of(one.start) + offset, ns_of(end) + offset});
  return all;
}

// Records the time spans in which the thread that runs the steps was in the step's communication phase.
class CommunicationSpans : public PhaseListener {
 public:
  void entered(Phase phase, Time now) override {
    left(now);
    communicating_ = phase == Phase::communication;
    since_ = now;
  }
  void left(Time now) override {
    if (communicating_) spans.push_back({ns_of(since_), ns_of(now)});
    communicating_ = false;
  }
  void moved(Phase phase, Time from, Time until) override {
    if (phase == Phase::communication) spans.push_back({ns_of(from), ns_of(until)});
  }
  Spans spans;

 private:
  bool communicating_ = false;
  Time since_;
};

// True if the strategy replays recorded steps (e.g. a CUDA graph). A replay calls no backend and allocates no tensor.
bool replays(const CaseSpec& spec, const Setup& setup) {
  return promised(strategy_registry().at(spec.strategy), setup.params).recorded;
}

// True if the profile has an extra step in which the memory of CPU tensors is divided into parts.
bool watches_memory(const CaseSpec& spec, const Setup& setup) {
  return setup.devices.at(0).is_cpu() && !replays(spec, setup);
}

class ProfiledCase {
 public:
  ProfiledCase(const CaseSpec& spec, Setup setup, StepSource& source, const Group& group, Pulse& pulse)
      : source_(source),
        group_(group),
        pulse_(pulse),
        device_(setup.devices.at(0)),
        mesh_(setup.mesh),
        log_(phases_, device_.is_cpu()),
        logged_(setup.mesh.group() && !replays(spec, setup)) {
    if (logged_) {
      setup.mesh =
          setup.mesh.with_groups([this](const std::string& axis, const auto& plain) { return logged(axis, plain); });
      setup.mesh.make_subgroups_by([this](const std::vector<int>& ranks, int number) {
        return logged(name_of_ranks(ranks), mesh_.subgroup(ranks, number));
      });
    }
    if (watches_memory(spec, setup)) memory_.emplace();
    strategy_ = strategy_registry().at(spec.strategy).make(setup);
    pulse_.publish_actions(phases_);
  }

  // Runs the steps whose numbers are in `recording`, so that a strategy that replays steps has recorded them. Then runs
  // `steps` warm-up steps. Returns the mean FLOP count of the last `counted` steps. Phases are timed in all of these
  // steps, because the first step with timed phases may switch on a strategy's own clocks (as in ddp).
  std::optional<int64_t> warm_up(const std::vector<int64_t>& recording, int64_t steps, int64_t counted) {
    StepFlop flop;
    phases_.switch_on(true);
    phases_.listen(&flop);
    for (const int64_t number : recording) {
      source_.prepare(number, 1);
      step(number, &flop);
    }
    for (int64_t i = 0; i < steps; ++i) step(step_++, &flop);
    phases_.listen(nullptr);
    phases_.switch_on(false);
    phases_.clear();
    strategy_->buffers();  // waits for a step that ends in a thread
    return flop.mean_of_last(counted);
  }

  // Returns the memory of CPU tensors at the peak of a step, by part; nullopt on a GPU and for a strategy that replays
  // steps.
  std::optional<MemoryParts> memory() {
    if (!memory_) return std::nullopt;
    memory_->begin(*strategy_);
    pulse_.beat();
    phases_.switch_on(true);
    phases_.listen(&*memory_);
    step(step_++);
    phases_.listen(nullptr);
    phases_.switch_on(false);
    phases_.clear();
    const auto found = memory_->end(*strategy_);
    memory_.reset();
    return found;
  }

  // Runs the profiled steps. Fills the record's times, its collectives and the figures that the strategy itself
  // reports. formula: the strategy's formula of the traffic of these steps.
  void run(int64_t steps, const Formula& formula, RankRecord& record) {
    Profile& profile = *record.profile;
    DevicePhases on_device(device_);
    phases_.switch_on(true);
    phases_.listen(device_.is_cpu() ? static_cast<PhaseListener*>(&blocked_) : &on_device);
    group_.barrier();
    if (logged_) log_.start();
    std::vector<int64_t> begins;
    const CoreUse use;
    for (int64_t i = 0; i < steps; ++i) begins.push_back(ns_of(step(step_++)));
    const int64_t end = ns_of(phases_.since());
    phases_.listen(nullptr);
    phases_.switch_on(false);
    profile.steps = steps;
    const CoreUse::Spent spent = use.spent();
    profile.cpu_ns = static_cast<double>(spent.cpu_ns) / static_cast<double>(steps);
    if (spent.queue_ns) profile.queue_ns = static_cast<double>(*spent.queue_ns) / static_cast<double>(steps);
    const double all_ns = device_.is_cpu() ? static_cast<double>(end - begins.front()) : on_device.all_ns();
    profile.step_ns = all_ns / static_cast<double>(steps);
    const auto on_gpu = device_.is_cpu() ? std::array<double, phase_names.size()>{} : on_device.total_ns();
    for (size_t i = 0; i < phase_names.size(); ++i)
      if (const double ns = device_.is_cpu() ? static_cast<double>(phases_.total_ns()[i]) : on_gpu[i]; ns != 0)
        record.phases_ns[std::string(phase_names[i])] = ns / static_cast<double>(steps);
    // If a step ends in a thread, calls that the last step makes after stop() are missing in the log.
    const auto* seen = logged_ ? &log_.stop() : nullptr;
    strategy_->buffers();  // waits for a step that ends in a thread
    if (seen) {
      describe_collectives(*seen, {.begins = begins, .blocked = blocked_.spans}, mesh_, device_, group_.one_host(),
                           record);
      profile.ledger = ledger_of(*seen, formula, steps);
    }
    profile.strategy_figures = strategy_->figures();
  }

  void trace(const std::string& stem) {
    group_.barrier();
    Trace trace(device_);
    phases_.switch_on(true);
    phases_.listen(&trace);
    // on a GPU, the trace already shows the kernels of the collectives, so they are not logged
    const bool timed = logged_ && device_.is_cpu();
    if (timed) log_.start();
    for (int64_t i = 0; i < traced_steps; ++i) step(step_++);
    phases_.listen(nullptr);
    trace.save(stem + ".rank" + std::to_string(group_.rank()) + ".json", timed ? traced(log_.stop()) : Collectives());
    strategy_->buffers();  // waits for a step that ends in a thread
  }

  void finish() {
    strategy_->finish();
    group_.barrier();
  }

 private:
  // Returns a process group that logs the calls of `group`. axis: name of the group in the log.
  c10::intrusive_ptr<c10d::ProcessGroup> logged(const std::string& axis,
                                                const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    return wrapped_group(group, device_.type(),
                         [&](const auto& inner) { return c10::make_intrusive<CollectiveWatch>(inner, axis, log_); });
  }

  // Runs one step. Returns its start time by the phases' clock, so that times of phases and collectives can be given
  // relative to it.
  Time step(int64_t number, StepFlop* flop = nullptr) {
    phases_.enter(Phase::data);
    const Time begin = phases_.since();
    const auto micro = source_.at(number);
    if (flop) flop->begin();
    strategy_->step(number, micro, phases_);
    if (flop) flop->end(micro);
    phases_.leave();
    pulse_.step();
    return begin;
  }

  StepSource& source_;
  const Group& group_;
  Pulse& pulse_;
  at::Device device_;
  Mesh mesh_;  // mesh with process groups that do not log collectives
  Phases phases_;
  CommunicationSpans blocked_;
  CollectiveLog log_;
  bool logged_;  // true if the strategy's collectives can be logged
  // Watches the memory of the strategy's tensors; unset on a GPU or with replayed steps. Declared before the strategy,
  // to see its allocations.
  std::optional<MemoryWatch> memory_;
  std::unique_ptr<Strategy> strategy_;
  int64_t step_ = 0;
};

// Returns the number of steps to profile: `wanted`, but at most max_steps. If `wanted` is a number of whole epochs and
// at least one fits, the result is rounded down to whole epochs.
int64_t profiled_steps(int64_t wanted, int64_t steps_per_epoch) {
  const int64_t steps = std::min(wanted, max_steps);
  return steps > steps_per_epoch && wanted % steps_per_epoch == 0 ? steps / steps_per_epoch * steps_per_epoch : steps;
}

// Returns the number of this rank's samples in each micro-batch of the first `steps` steps.
std::vector<std::vector<int64_t>> samples_of(const StepSource& source, int64_t steps) {
  std::vector<std::vector<int64_t>> samples(static_cast<size_t>(steps));
  for (int64_t step = 0; step < steps; ++step)
    for (const at::Tensor& ids : source.ids(step)) samples[static_cast<size_t>(step)].push_back(ids.numel());
  return samples;
}

}  // namespace

bool profile_case(const CaseSpec& spec, const Setup& setup, StepSource& source, const Sampling& sampling,
                  const Group& group, Pulse& pulse, RankRecord& record) {
  const int64_t steps = profiled_steps(record.steps_per_sample, source.steps_per_epoch());
  const int64_t counted_steps = source.steps_per_epoch() <= short_epoch ? source.steps_per_epoch() : 1;
  const int64_t before_profile = warmup_steps + counted_steps + (watches_memory(spec, setup) ? 1 : 0);
  source.prepare(0, before_profile + steps + traced_steps);
  record.phases_ns.clear();
  record.profile.emplace();
  const Formula formula =
      formula_of(spec, setup, group.rank(), before_profile, samples_of(source, before_profile + steps));
  ProfiledCase profiled(spec, setup, source, group, pulse);
  bool by_engine = false;
  {
    // counts autograd nodes in the warm-up only, because counting would slow down the profiled steps
    const EngineWatch engine;
    record.profile->flop = profiled.warm_up(recording_steps(spec, source), warmup_steps + counted_steps, counted_steps);
    by_engine = engine.nodes() > 0;
  }
  record.profile->memory = profiled.memory();
  profiled.run(steps, formula, record);
  if (!sampling.trace_dir.empty()) profiled.trace(sampling.trace_dir + "/" + trace_stem(spec.id));
  profiled.finish();
  return by_engine;
}

}  // namespace dpbench
