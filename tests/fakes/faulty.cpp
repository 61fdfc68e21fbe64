// "faulty-ddp" and "faulty-dp": the real ones, until one rank does at one step what FAULT names. --param fault=..
// rank=.. step=.. The rank that DPBENCH_NEVER_JOINS names stays in loading this. Where DPBENCH_STRUCK names a file,
// each strike is a line of it: the time (CLOCK_MONOTONIC, in nanoseconds) and the process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ATen/ATen.h>

#include "harness/conform/evidence/forwarding_backend.h"
#include "harness/conform/scenario/altered_workload.h"
#include "strategies/api/strategy.h"
#include "tests/unit/around.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

using Fault = void (*)(const Setup& setup);

void note_strike() {
  const char* file = std::getenv("DPBENCH_STRUCK");
  std::FILE* out = file ? std::fopen(file, "a") : nullptr;
  if (!out) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::fprintf(out, "%lld %d\n", static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec, getpid());
  std::fclose(out);
}

[[noreturn]] void wait_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

const bool joins = [] {
  const char *never = std::getenv("DPBENCH_NEVER_JOINS"), *rank = std::getenv("RANK");
  if (!never || !rank || std::string(never) != rank) return true;
  note_strike();
  wait_for_ever();
}();

// More than there is, as a batch that is too large would ask for.
void hoard(const Setup&) {
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = rlim_t{1} << 35;
  setrlimit(RLIMIT_AS, &limit);
  at::empty({int64_t{1} << 36}, at::kByte);
}

// Up to a limit of the control group; 8 GiB are enough for a test.
void fill_memory(const Setup&) {
  std::vector<std::string> all;
  while (all.size() < 512) all.emplace_back(size_t{16} << 20, 'x');
}

void a_collective_more(const Setup& setup) {
  std::vector<at::Tensor> box = {at::zeros({3})};
  setup.group->broadcast(box)->wait();
}

const std::map<std::string, Fault> faults = {
    {"kill", [](const Setup&) { raise(SIGKILL); }},
    {"segv", [](const Setup&) { raise(SIGSEGV); }},
    {"abort", [](const Setup&) { abort(); }},
    {"stop", [](const Setup&) { raise(SIGSTOP); }},
    {"exit-0", [](const Setup&) { _exit(0); }},
    {"exit-7", [](const Setup&) { _exit(7); }},
    {"throw", [](const Setup&) { throw std::runtime_error("the strategy's own words"); }},
    {"memory", [](const Setup&) { throw std::bad_alloc(); }},
    {"replica-memory", [](const Setup&) { throw OutOfHostMemory("replica 1"); }},
    {"hoard", hoard},
    {"fill", fill_memory},
    {"spin",
     [](const Setup&) {
       for (volatile bool on = true; on;) {
       }
     }},
    {"sleep", [](const Setup&) { wait_for_ever(); }},
    {"other-collective", a_collective_more},
};

// What one element becomes after the step, in a parameter or in a gradient that has been used.
struct Spoiling {
  bool gradient;
  float value;
};
const std::map<std::string, Spoiling> spoilings = {{"nan-weight", {false, std::numeric_limits<float>::quiet_NaN()}},
                                                   {"inf-gradient", {true, std::numeric_limits<float>::infinity()}},
                                                   {"wrong-gradient", {true, 3}},
                                                   {"drift", {false, 1}}};

struct Opened : torch::nn::Module {
  static constexpr auto parameters = &Opened::parameters_;
};

void turn_round(torch::nn::Module& layer) {
  auto& ordered = layer.*Opened::parameters;
  const auto items = ordered.items();
  ordered.clear();
  for (auto item = items.rbegin(); item != items.rend(); ++item) ordered.insert(item->key(), item->value());
}

void alter(Model& model, const std::string& fault) {
  const auto parameters = model.parameters();
  const auto replace = [&](const at::Tensor& value) { at::Tensor(parameters.front()).set_data(value); };
  if (fault == "more-parameters")
    model.register_parameter("one_more", at::zeros({3}));
  else if (fault == "other-order")
    turn_round(*model.children().at(0));
  else if (fault == "other-shape")
    replace(at::zeros({3, 3}));
  else if (fault == "other-dtype")
    replace(parameters.front().detach().to(at::kDouble));
  else
    return;
  note_strike();
}

// Models that are others on one rank; "unused": all have a parameter more, which one rank's loss leaves out.
class FaultyWorkload : public AlteredWorkload {
 public:
  FaultyWorkload(const Workload& inner, const std::string& fault, bool mine)
      : AlteredWorkload(inner,
                        [this, fault, mine](Model& model) {
                          if (fault == "unused") extra_ = model.register_parameter("extra", at::zeros({3}));
                          if (mine) alter(model, fault);
                        }),
        mine_(mine) {}

  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    const at::Tensor whole = AlteredWorkload::loss(output, target);
    if (extra_.defined() && mine_) note_strike();
    return extra_.defined() && !mine_ ? whole + 0 * extra_.sum() : whole;
  }

 private:
  at::Tensor extra_;
  bool mine_;
};

// What ranks put together is altered before they get it.
using Alteration = void (*)(const at::Tensor& reduced, int ranks);
const std::map<std::string, Alteration> alterations = {
    {"sum", [](const at::Tensor& reduced, int ranks) { reduced.mul_(ranks); }},  // where ddp asks for the mean
    {"narrow", [](const at::Tensor& reduced, int) {
       if (reduced.scalar_type() == at::kFloat) reduced.copy_(reduced.to(at::kHalf));
     }}};

class Altering : public ForwardingBackend {
 public:
  Altering(c10::intrusive_ptr<c10d::Backend> inner, Alteration alteration)
      : ForwardingBackend(std::move(inner)), alteration_(alteration) {}

 protected:
  WorkPtr around(Call call) override {
    const at::Tensor reduced = call.op == CollectiveOp::allreduce ? call.output.front() : at::Tensor();
    auto work = call.run();
    if (!reduced.defined() || !reduced.is_floating_point()) return work;
    work->wait();
    const at::NoGradGuard no_grad;
    alteration_(reduced, getSize());
    return work;
  }

 private:
  Alteration alteration_;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const Setup& setup, const std::string& fault) {
  const auto found = alterations.find(fault);
  if (found == alterations.end()) return setup.group;
  return wrapped_group(setup.group, setup.devices.at(0).type(),
                       [&](const auto& inner) { return c10::make_intrusive<Altering>(inner, found->second); });
}

class Faulty : public Around {
 public:
  Faulty(const Setup& setup, const StrategyInfo& real)
      : setup_(setup),
        fault_(setup.params.text("fault")),
        step_(setup.params.integer("step")),
        mine_((setup.group ? setup.group->getRank() : 0) == setup.params.integer("rank")),
        workload_(setup.workload, fault_, mine_) {
    if (mine_ && step_ == -1) strike();
    inner_ = real.make({.workload = workload_,
                        .devices = setup.devices,
                        .group = group_of(setup, fault_),
                        .init_seed = setup.init_seed,
                        .step_seed = setup.step_seed,
                        .dtype = setup.dtype,
                        .params = Params(real.params, {}, real.name),
                        .accumulate = setup.accumulate,
                        .clip_norm = fault_ == "no-clip" ? std::nullopt : setup.clip_norm});
  }

  ~Faulty() override {
    if (mine_ && step_ == -3) strike();
    inner_.reset();  // before the workload that it reads
  }

  void finish() override {
    if (mine_ && step_ == -2) strike();
    inner_->finish();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const bool now = mine_ && step == step_;
    if (now) strike();
    if (now && fault_ == "skip") return last_;
    if (mine_ && fault_ == "crawl") std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (mine_ && fault_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(2));
    last_ = inner_->step(step, fault_ == "last-micro" ? micro.last(std::min<size_t>(micro.size(), 1)) : micro, phases);
    if (now && fault_ == "nan") poison();
    if (const auto found = spoilings.find(fault_); now && found != spoilings.end()) spoil(found->second);
    return last_;
  }

 private:
  void strike() const {
    note_strike();
    if (const auto found = faults.find(fault_); found != faults.end()) found->second(setup_);
  }
  // Element 7 of the first.
  void spoil(const Spoiling& spoiling) {
    const at::NoGradGuard no_grad;
    const NamedTensors tensors = spoiling.gradient ? inner_->gradients() : inner_->parameters();
    tensors.at(0).second.detach().view(-1)[7].fill_(spoiling.value);
  }
  void poison() {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : inner_->parameters())
      at::Tensor(tensor).fill_(std::numeric_limits<double>::quiet_NaN());
  }

  Setup setup_;
  std::string fault_;
  int64_t step_;
  bool mine_;
  FaultyWorkload workload_;
  StepResult last_;
};

StrategyInfo faulty(const std::string& name) {
  StrategyInfo info = strategy_registry().at(name);
  info.name = "faulty-" + name;
  info.params = {{"fault", "none", "what goes wrong"},
                 {"rank", "1", "where"},
                 {"step", "7", "when; -1 before the first, -2 when all are done, -3 when it is destroyed"}};
  info.settings = {};  // of parameters that it does not have
  info.promise = nullptr;
  info.variants.clear();
  info.make = [name](const Setup& setup) { return std::make_unique<Faulty>(setup, strategy_registry().at(name)); };
  return info;
}

const RegisterStrategy ddp{faulty("ddp")}, dp{faulty("dp")};

}  // namespace
}  // namespace dpbench
