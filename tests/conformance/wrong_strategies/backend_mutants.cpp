// Wrong backends under the real ddp: a correct strategy with a broken collective must fail a check.
#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// A backend that changes the input or the output of floating-point allreduces.
class AlteringBackend : public ForwardingBackend {
 public:
  using Change = std::function<void(AlteringBackend&, at::Tensor&)>;
  AlteringBackend(c10::intrusive_ptr<c10d::Backend> inner, Change before, Change after)
      : ForwardingBackend(std::move(inner)), before_(std::move(before)), after_(std::move(after)) {}

  int64_t calls = 0;
  std::map<int64_t, at::Tensor> kept;
  c10d::Backend& inner() { return *inner_; }

 protected:
  WorkPtr around(Call call) override {
    if (call.op != CollectiveOp::allreduce || !call.input[0].is_floating_point()) return call.run();
    ++calls;
    const at::NoGradGuard no_grad;
    if (before_) before_(*this, call.input[0]);
    auto work = call.run();
    work->wait();
    if (after_) after_(*this, call.output[0]);
    return work;
  }

 private:
  Change before_, after_;
};

Wrap alter(const AlteringBackend::Change& before, const AlteringBackend::Change& after) {
  return [=](c10::intrusive_ptr<c10d::Backend> inner) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<AlteringBackend>(std::move(inner), before, after);
  };
}

// A backend that replaces the result of one kind of collective: each rank computes its own result from all ranks'
// inputs.
class ReplacingBackend : public ForwardingBackend {
 public:
  using Act = std::function<void(ForwardingBackend& self, at::Tensor& tensor, std::vector<at::Tensor> all)>;
  ReplacingBackend(c10::intrusive_ptr<c10d::Backend> inner, CollectiveOp op, Act act)
      : ForwardingBackend(std::move(inner)), op_(op), act_(std::move(act)) {}

 protected:
  WorkPtr around(Call call) override {
    if (call.op != op_ || !call.input[0].is_floating_point()) return call.run();
    const at::NoGradGuard no_grad;
    at::Tensor& tensor = call.input[0];
    std::vector<at::Tensor> input = {tensor.clone()};
    std::vector<std::vector<at::Tensor>> output(1);
    for (int r = 0; r < getSize(); ++r) output[0].push_back(at::empty_like(tensor));
    auto work = inner_->allgather(output, input, c10d::AllgatherOptions());
    work->wait();
    act_(*this, tensor, output[0]);
    std::vector<at::Tensor> nothing = {at::zeros({1}, at::kInt)};
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::vector<at::Tensor>{tensor}));
    return c10d::Work::create_from_future(done);
  }

 private:
  CollectiveOp op_;
  Act act_;
};

Wrap replace(const ReplacingBackend::Act& act, CollectiveOp op = CollectiveOp::allreduce) {
  return [=](c10::intrusive_ptr<c10d::Backend> inner) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<ReplacingBackend>(std::move(inner), op, act);
  };
}

at::Tensor sum_from(const std::vector<at::Tensor>& all, int first) {
  at::Tensor sum = at::zeros_like(all[0]);
  for (size_t i = 0; i < all.size(); ++i) sum.add_(all[(i + static_cast<size_t>(first)) % all.size()]);
  return sum;
}

// One of two simulated hosts: its first rank and its number of ranks. Three ranks form the hosts {0, 1} and {2}, so a
// rank's number within its host can differ from its global rank.
struct HostsGroup {
  int first, size;
};

HostsGroup group_of(int rank) { return rank < 2 ? HostsGroup{0, 2} : HostsGroup{2, 1}; }

at::Tensor sum_of_hosts(const std::vector<at::Tensor>& all) { return (all[0] + all[1]) + all[2]; }

void mean_over_hosts(ForwardingBackend&, at::Tensor& tensor, const std::vector<at::Tensor>& all) {
  tensor.copy_(sum_of_hosts(all) / 3);
}

void mean_of_host_means(ForwardingBackend&, at::Tensor& tensor, const std::vector<at::Tensor>& all) {
  tensor.copy_(((all[0] + all[1]) / 2 + all[2]) / 2);
}

void divide_by_host_size(ForwardingBackend& self, at::Tensor& tensor, const std::vector<at::Tensor>& all) {
  tensor.copy_(sum_of_hosts(all) / group_of(self.getRank()).size);
}

// A mistake: a broadcast takes its data from rank 0 of each host instead of global rank 0.
void take_host_rank_0(ForwardingBackend& self, at::Tensor& tensor, const std::vector<at::Tensor>& all) {
  tensor.copy_(all[static_cast<size_t>(group_of(self.getRank()).first)]);
}

class SilentBroadcast : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 protected:
  WorkPtr around(Call call) override {
    const std::vector<at::Tensor> before = call.op == CollectiveOp::broadcast && call.input[0].is_floating_point()
                                               ? std::vector{call.input[0].clone()}
                                               : std::vector<at::Tensor>{};
    auto work = call.run();
    work->wait();
    const at::NoGradGuard no_grad;
    if (!before.empty()) call.output[0].copy_(before[0]);
    return work;
  }
};

// A backend that corrupts the output of one kind of collective.
class CorruptingBackend : public ForwardingBackend {
 public:
  using Change = void (*)(at::Tensor& output, int rank);
  CorruptingBackend(c10::intrusive_ptr<c10d::Backend> inner, CollectiveOp op, Change change)
      : ForwardingBackend(std::move(inner)), op_(op), change_(change) {}

 protected:
  WorkPtr around(Call call) override {
    auto work = call.run();
    work->wait();
    const at::NoGradGuard no_grad;
    if (call.op == op_) change_(call.output[0], getRank());
    return work;
  }

 private:
  CollectiveOp op_;
  Change change_;
};

Wrap corrupt(CollectiveOp op, CorruptingBackend::Change change) {
  return [=](c10::intrusive_ptr<c10d::Backend> inner) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<CorruptingBackend>(std::move(inner), op, change);
  };
}

void reverse_on_rank_1(at::Tensor& output, int rank) {
  if (rank == 1) output.copy_(output.flip(0));
}

// A mistake: converts integers to double and back, which changes integers that a double cannot represent.
void round_to_doubles(at::Tensor& output, int /*rank*/) { output.copy_(output.to(at::kDouble)); }

template <class B>
Wrap wrap_in() {
  return [](c10::intrusive_ptr<c10d::Backend> inner) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<B>(std::move(inner));
  };
}

std::function<StrategyInfo()> ddp() {
  return [] { return strategy_registry().at("ddp"); };
}

void deliver_previous_call(AlteringBackend& self, at::Tensor& tensor) {
  const int64_t size = tensor.numel();
  const at::Tensor fresh = tensor.clone();
  if (self.kept.contains(size)) tensor.copy_(self.kept[size]);
  self.kept[size] = fresh;
}

void lose_every_third(AlteringBackend& self, at::Tensor& tensor) {
  if (self.calls % 3 == 0) tensor.copy_(self.kept[-1]);
}

// Correct: averages a bucket by a reduce to rank 0 and a broadcast from rank 0, instead of an allreduce.
void reduce_via_rank_0(Run& run, at::Tensor& flat, size_t) {
  c10d::ReduceOptions options;
  options.rootRank = 0;
  std::vector<at::Tensor> tensors = {flat};
  run.group->reduce(tensors, options)->wait();
  run.broadcast(flat);
  flat.div_(run.world);
}

std::function<StrategyInfo()> reducing_via_rank_0() {
  return with([](Parts& parts) { parts.reduce = reduce_via_rank_0; });
}

void halve_on_rank_0(at::Tensor& output, int rank) {
  if (rank == 0 && output.scalar_type() == at::kFloat) output.copy_(output.to(at::kHalf));
}

std::function<StrategyInfo()> reducing_by_the_backends_average() {
  return with([](Parts& parts) {
    parts.reduce = [](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat, c10d::ReduceOp::AVG); };
  });
}

Mutant broken(const std::string& name, const std::string& killed_by, Wrap wrap, const std::string& says = "",
              const std::string& workload = "probe-mlp-sgd") {
  return {name, killed_by, says, ddp(), workload, 3, std::move(wrap)};
}

// A correct strategy that skips the optimizer step if the reduced gradient is not finite. All ranks see the same
// gradient, so all skip the same steps, as with a loss scaler.
StrategyInfo skips_non_finite() {
  Parts parts = right_parts();
  parts.update = [right = parts.update](Run& run) {
    if (run.all_finite()) right(run);
  };
  StrategyInfo info = strategy_of(std::move(parts));
  info.skips_non_finite = true;
  return info;
}

}  // namespace

std::vector<Mutant> backend_mutants() {
  return {
      broken("backend-loses-a-rank", "reduction",
             alter(
                 [](AlteringBackend& self, at::Tensor& t) {
                   if (self.getRank() == 2) t.zero_();
                 },
                 {}),
             "rank 2"),
      broken("backend-sums-in-float16", "reduction",
             alter({}, [](AlteringBackend&, at::Tensor& t) { t.copy_(t.to(at::kHalf)); }), "Half"),
      broken("backend-averages-by-itself", "reduction",
             alter({}, [](AlteringBackend& self, at::Tensor& t) { t.div_(self.getSize()); }), "averaged"),
      broken("backend-loses-the-last-element", "reduction",
             alter({}, [](AlteringBackend&, at::Tensor& t) { t.flatten().narrow(0, t.numel() - 1, 1).zero_(); }),
             "found 0"),
      broken("backend-loses-every-third-call", "gradient-meaning",
             alter([](AlteringBackend& self, at::Tensor& t) { self.kept[-1] = t.clone(); }, lose_every_third),
             "of 6 parameters"),
      broken("backend-delivers-the-call-before", "reduction", alter({}, deliver_previous_call), "late"),
      broken("backend-masks-NaN", "non-finite",
             alter([](AlteringBackend&, at::Tensor& t) { t.nan_to_num_(0, 0, 0); }, {}), "masked"),
      broken("backend-broadcasts-rank-0", "gradient-meaning",
             replace([](ForwardingBackend&, at::Tensor& t, const auto& all) {
               t.copy_(all[0] * static_cast<double>(all.size()));
             }),
             "rank 0's own"),
      broken(
          "backend-does-nothing", "gradient-meaning",
          replace([](ForwardingBackend&, at::Tensor& t, const auto& all) { t.mul_(static_cast<double>(all.size())); }),
          "own gradient"),
      broken("backend-sums-in-each-ranks-own-order", "reduction-agrees",
             replace([](ForwardingBackend& self, at::Tensor& t, const auto& all) {
               t.copy_(sum_from(all, self.getRank()));
             }),
             "order", "probe-large"),
      {"backend-reduces-to-one-in-float16", "reduction", "Half", reducing_via_rank_0(), "probe-mlp-sgd", 3,
       corrupt(CollectiveOp::reduce, halve_on_rank_0)},
      broken("backend-does-not-broadcast", "initial-broadcast", wrap_in<SilentBroadcast>(), "broadcast"),
      broken("backend-reverses-a-piece", "reduce-scatter-exact",
             corrupt(CollectiveOp::reduce_scatter, reverse_on_rank_1), "of 1001 Float, rank 1", "probe-exact"),
      broken("backend-sums-int64-in-doubles", "allreduce-exact", corrupt(CollectiveOp::allreduce, round_to_doubles),
             "Long", "probe-exact"),
      {"hosts-mean-of-their-means", "gradient-meaning", "0.25, 0.25, 0.5", reducing_by_the_backends_average(),
       "probe-mlp-sgd", 3, replace(mean_of_host_means)},
      {"hosts-divide-by-their-own-ranks", "ranks-agree-parameters", "rank 2, step 0, scenario even",
       reducing_by_the_backends_average(), "probe-mlp-sgd", 3, replace(divide_by_host_size)},
      broken("hosts-take-the-root-for-their-own-rank", "initial-broadcast",
             replace(take_host_rank_0, CollectiveOp::broadcast), "rank 2, scenario even"),
  };
}

std::vector<Mutant> equivalents() {
  const auto ring = [](ForwardingBackend&, at::Tensor& t, const auto& all) { t.copy_(sum_from(all, 1)); };
  return {
      {"reference", "", "", with([](Parts&) {})},
      {"reference-adam", "", "", with([](Parts&) {}), "probe-mlp"},
      {"reference-batch-norm", "", "", with([](Parts&) {}), "probe-batch-norm"},
      {"reference-tied", "", "", with([](Parts&) {}), "probe-tied"},
      {"reference-strided", "", "", with([](Parts&) {}), "probe-strided"},
      {"reference-branch", "", "", with([](Parts&) {}), "probe-branch"},
      {"reference-unused", "", "", with([](Parts&) {}), "probe-unused"},
      {"reference-exact", "", "", with([](Parts&) {}), "probe-exact"},
      {"reference-gpt", "", "", with([](Parts&) {}), "gpt"},
      {"reference-llama", "", "", with([](Parts&) {}), "probe-llama"},
      {"reference-gpt-exact", "", "", with([](Parts&) {}), "gpt-exact"},
      {"reference-world-1", "", "", with([](Parts&) {}), "probe-mlp-sgd", 1},
      {"ring-started-elsewhere", "", "", ddp(), "probe-mlp-sgd", 3, replace(ring)},
      {"summed-on-rank-0", "", "", reducing_via_rank_0()},
      {"sum-as-declared", "", "",
       with([](Parts& p) { p.reduce = [](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat); }; },
            Gradient::sum)},
      {"skips-non-finite-steps", "", "", skips_non_finite, "probe-mlp"},
      {"one-bucket", "", "", with([](Parts& p) {
         p.buckets = [right = p.buckets](Run& run) {
           run.bucket_bytes = 1e9;
           return right(run);
         };
       })},
      {"a-bucket-for-each-parameter", "", "", with([](Parts& p) {
         p.buckets = [right = p.buckets](Run& run) {
           run.bucket_bytes = 1;
           return right(run);
         };
       })},
      {"divided-before-the-sum", "", "", with([](Parts& p) {
         p.reduce = [](Run& run, at::Tensor& flat, size_t) {
           flat.mul_(1.0 / run.world);
           run.all_reduce(flat);
         };
       })},
      {"reduced-by-the-backend's-average", "", "", reducing_by_the_backends_average()},
      {"averaged-host-by-host", "", "", reducing_by_the_backends_average(), "probe-mlp-sgd", 3,
       replace(mean_over_hosts)},
  };
}

}  // namespace dpbench::wrong
