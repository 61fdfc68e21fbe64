// "faulty-ddp", "faulty-dp", "faulty-fsdp", "faulty-layout", "faulty-pp" and "faulty-tp" act as ddp, dp, fsdp, layout,
// pp and tp until one rank performs a fault at one step, or in a collective of that step, chosen by --param
// fault=.. rank=.. step=.. in=.. after=.. They take the parameters of the real strategy too. The rank that
// DPBENCH_NEVER_JOINS names blocks while it loads this plug-in. Each fault appends its time (CLOCK_MONOTONIC in
// nanoseconds) and process id to the file DPBENCH_STRUCK.
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
#include "tests/support/around.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

using Fault = void (*)(const Setup& setup);

void record_strike() {
  const char* file = std::getenv("DPBENCH_STRUCK");
  std::FILE* out = file ? std::fopen(file, "a") : nullptr;
  if (!out) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::fprintf(out, "%lld %d\n", static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec, getpid());
  std::fclose(out);
}

[[noreturn]] void block_forever() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

const bool joins = [] {
  const char *never = std::getenv("DPBENCH_NEVER_JOINS"), *rank = std::getenv("RANK");
  if (!never || !rank || std::string(never) != rank) return true;
  record_strike();
  block_forever();
}();

// Limits the address space to 32 GiB and allocates 64 GiB, as a batch that is too large would.
void allocate_too_much(const Setup&) {
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = rlim_t{1} << 35;
  setrlimit(RLIMIT_AS, &limit);
  at::empty({int64_t{1} << 36}, at::kByte);
}

// Fills memory until the control group's limit kills this process; stops at 8 GiB if there is no lower limit.
void fill_memory(const Setup&) {
  std::vector<std::string> all;
  while (all.size() < 512) all.emplace_back(size_t{16} << 20, 'x');
}

void call_extra_collective(const Setup& setup) {
  std::vector<at::Tensor> box = {at::zeros({3})};
  setup.mesh.group()->broadcast(box)->wait();
}

at::TensorOptions on_device(const Setup& setup, at::ScalarType type) {
  return at::TensorOptions(type).device(setup.devices.at(0));
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
    {"hoard", allocate_too_much},
    {"device-memory", [](const Setup& setup) { at::empty({int64_t{1} << 42}, on_device(setup, at::kByte)); }},
    {"device-assert",
     [](const Setup& setup) {
       at::zeros({3}, on_device(setup, at::kFloat)).index_select(0, at::full({1}, 5, on_device(setup, at::kLong)));
     }},
    {"fill", fill_memory},
    {"spin",
     [](const Setup&) {
       for (volatile bool on = true; on;) {
       }
     }},
    {"sleep", [](const Setup&) { block_forever(); }},
    {"other-collective", call_extra_collective},
};

// After the step, overwrites one element of a parameter or of a gradient with `value`.
struct Corruption {
  bool gradient;
  float value;
};
const std::map<std::string, Corruption> corruptions = {{"nan-weight", {false, std::numeric_limits<float>::quiet_NaN()}},
                                                       {"inf-gradient", {true, std::numeric_limits<float>::infinity()}},
                                                       {"wrong-gradient", {true, 3}},
                                                       {"drift", {false, 1}}};

struct OpenModule : torch::nn::Module {
  static constexpr auto parameters = &OpenModule::parameters_;
};

void reverse_order(torch::nn::Module& layer) {
  auto& ordered = layer.*OpenModule::parameters;
  const auto items = ordered.items();
  ordered.clear();
  for (auto item = items.rbegin(); item != items.rend(); ++item) ordered.insert(item->key(), item->value());
}

// Exchanges two blocks of the same shape, so that fsdp gathers two units of equal size in the opposite order.
void swap_blocks(const Model& model) {
  auto& blocks = const_cast<std::vector<Block>&>(model.blocks());
  std::swap(blocks.at(1), blocks.at(2));
}

void alter_model(Model& model, const std::string& fault) {
  const auto parameters = model.parameters();
  const auto replace = [&](const at::Tensor& value) { at::Tensor(parameters.front()).set_data(value); };
  if (fault == "more-parameters")
    model.register_parameter("one_more", at::zeros({3}));
  else if (fault == "other-order")
    reverse_order(*model.children().at(0));
  else if (fault == "other-shape")
    replace(at::zeros({3, 3}));
  else if (fault == "swapped-units")
    swap_blocks(model);
  else if (fault == "other-dtype")
    replace(parameters.front().detach().to(at::kDouble));
  else
    return;
  record_strike();
}

// A workload with a wrong model on one rank. Fault "unused": all ranks have an extra parameter, and one rank's loss
// does not use it.
class FaultyWorkload : public AlteredWorkload {
 public:
  FaultyWorkload(const Workload& inner, const std::string& fault, bool this_rank)
      : AlteredWorkload(inner,
                        [this, fault, this_rank](Model& model) {
                          if (fault == "unused") extra_ = model.register_parameter("extra", at::zeros({3}));
                          if (this_rank) alter_model(model, fault);
                        }),
        this_rank_(this_rank) {}

  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    const at::Tensor whole = AlteredWorkload::loss(output, target);
    if (extra_.defined() && this_rank_) record_strike();
    return extra_.defined() && !this_rank_ ? whole + 0 * extra_.sum() : whole;
  }

 private:
  at::Tensor extra_;
  bool this_rank_;
};

// Changes the result of an allreduce before the ranks receive it.
using Alteration = void (*)(const at::Tensor& reduced, int ranks);
const std::map<std::string, Alteration> alterations = {
    // ddp has asked for the mean. The mean times the number of ranks is the sum.
    {"sum", [](const at::Tensor& reduced, int ranks) { reduced.mul_(ranks); }},
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

// Calls before() with the collective's name just before each collective.
class Striking : public ForwardingBackend {
 public:
  using Before = std::function<void(const std::string& collective)>;
  Striking(c10::intrusive_ptr<c10d::Backend> inner, Before before)
      : ForwardingBackend(std::move(inner)), before_(std::move(before)) {}

 protected:
  WorkPtr around(Call call) override {
    before_(name_of(call.op));
    return call.run();
  }

 private:
  Before before_;
};

class Faulty : public Around {
 public:
  Faulty(const Setup& setup, const StrategyInfo& real)
      : setup_(setup),
        fault_(setup.params.text("fault")),
        step_(setup.params.integer("step")),
        collective_(setup.params.text("in")),
        after_(setup.params.integer("after")),
        this_rank_((setup.mesh.group() ? setup.mesh.group()->getRank() : 0) == setup.params.integer("rank")),
        workload_(setup.workload, fault_, this_rank_) {
    if (this_rank_ && step_ == -1) strike();
    inner_ = real.make({.workload = workload_,
                        .devices = setup.devices,
                        .mesh = mesh(),
                        .init_seed = setup.init_seed,
                        .step_seed = setup.step_seed,
                        .dtype = setup.dtype,
                        .params = Params(real.params, params_of_inner(real), real.name),
                        .accumulate = setup.accumulate,
                        .clip_norm = fault_ == "no-clip" ? std::nullopt : setup.clip_norm});
  }

  ~Faulty() override {
    if (this_rank_ && step_ == -3) strike();
    inner_.reset();  // the strategy inner_ refers to workload_, so it is destroyed first
  }

  void finish() override {
    if (this_rank_ && step_ == -2) strike();
    inner_->finish();
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    const bool now = this_rank_ && step == step_;
    if (now && collective_ == "none") strike();
    armed_ = now;
    calls_left_ = after_;
    if (now && fault_ == "skip") return last_;
    if (this_rank_ && fault_ == "crawl") std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (this_rank_ && fault_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(2));
    last_ = inner_->step(step, fault_ == "last-micro" ? micro.last(std::min<size_t>(micro.size(), 1)) : micro, phases);
    if (now && fault_ == "nan") fill_with_nan();
    if (const auto found = corruptions.find(fault_); now && found != corruptions.end()) corrupt(found->second);
    return last_;
  }

 private:
  // Returns the mesh. For some faults, its groups alter the results of collectives or make this rank fail in one.
  Mesh mesh() {
    const auto alteration = alterations.find(fault_);
    if (alteration == alterations.end() && collective_ == "none") return setup_.mesh;
    const auto wrap = [=, this](c10::intrusive_ptr<c10d::Backend> inner) {
      if (alteration != alterations.end()) inner = c10::make_intrusive<Altering>(inner, alteration->second);
      if (collective_ == "none") return inner;
      return c10::intrusive_ptr<c10d::Backend>(
          c10::make_intrusive<Striking>(inner, [this](const std::string& collective) {
            if (!armed_ || collective != collective_ || calls_left_-- > 0) return;
            armed_ = false;
            strike();
          }));
    };
    return setup_.mesh.with_groups(
        [&](const std::string&, const auto& plain) { return wrapped_group(plain, setup_.devices.at(0).type(), wrap); });
  }
  ParamValues params_of_inner(const StrategyInfo& real) const {
    ParamValues values;
    for (const ParamInfo& one : real.params) values[one.name] = setup_.params.text(one.name);
    if (this_rank_ && fault_ == "other-unit") values["unit"] = "2";
    if (this_rank_ && fault_ == "other-schedule") values["schedule"] = "gpipe";
    return values;
  }
  void strike() const {
    record_strike();
    if (const auto found = faults.find(fault_); found != faults.end()) found->second(setup_);
  }
  // Overwrites element 7 of the first parameter or gradient.
  void corrupt(const Corruption& corruption) {
    const at::NoGradGuard no_grad;
    const NamedTensors tensors = corruption.gradient ? inner_->gradients() : inner_->parameters();
    tensors.at(0).second.detach().view(-1)[7].fill_(corruption.value);
  }
  void fill_with_nan() {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : inner_->parameters())
      at::Tensor(tensor).fill_(std::numeric_limits<double>::quiet_NaN());
  }

  Setup setup_;
  std::string fault_;
  int64_t step_;
  std::string collective_;          // collective in which the rank fails; "none": the rank fails before the step
  int64_t after_, calls_left_ = 0;  // calls of this collective in the step that succeed
  bool this_rank_, armed_ = false;
  FaultyWorkload workload_;
  StepResult last_;
};

StrategyInfo faulty(const std::string& name) {
  StrategyInfo info = strategy_registry().at(name);
  info.name = "faulty-" + name;
  const std::vector<ParamInfo> of_fault = {
      {"fault", "none", "fault to inject"},
      {"rank", "1", "rank that fails"},
      {"step", "7", "when; -1 before the first, -2 in finish(), -3 in the destructor"},
      {"in", "none", "collective in which the rank fails, or none: before the step"},
      {"after", "0", "calls of that collective in the step before the one that fails", "integer"}};
  info.params.insert(info.params.begin(), of_fault.begin(), of_fault.end());
  // The parameter values for checks are left out, because some change the number of collectives in a step.
  info.settings = {};
  info.promise = nullptr;
  info.mesh_for = nullptr;
  info.traffic = nullptr;
  info.live_parameters = nullptr;
  info.variants.clear();
  info.make = [name](const Setup& setup) { return std::make_unique<Faulty>(setup, strategy_registry().at(name)); };
  return info;
}

const RegisterStrategy ddp{faulty("ddp")}, dp{faulty("dp")}, fsdp{faulty("fsdp")}, pp{faulty("pp")}, tp{faulty("tp")},
    layout{faulty("layout")};

}  // namespace
}  // namespace dpbench
