// Correct strategies of unusual construction, which must pass every check, and wrong strategies of similar
// construction.
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

using Change = std::function<void(Parts&)>;

Change both(const Change& first, const Change& second) {
  return [=](Parts& parts) { first(parts), second(parts); };
}

// Returns a change of the reference strategy that replaces a part by `wrong` in all dtypes but float64. The checks in
// float64 cannot detect it.
template <class Part>
Change in_working_dtype(Part Parts::* part, const Part& wrong) {
  return [=](Parts& parts) {
    parts.*part = [wrong, right = parts.*part](Run& run, auto&&... rest) {
      return (run.dtype == at::kDouble ? right : wrong)(run, rest...);
    };
  };
}

std::function<StrategyInfo()> declared(const Change& change, const std::function<void(StrategyInfo&)>& declare) {
  return [=, made = with(change)] {
    StrategyInfo info = made();
    declare(info);
    return info;
  };
}

using Reduce = decltype(Parts::reduce);

// A correct variant: divides the loss by the world size before the backward pass. 1/3 is rounded, so with three ranks
// the gradients have other bits than if their sum were divided.
void divide_loss_by_world(Parts& parts) {
  parts.micro_scale = [](Run& run) { return 1.0 / static_cast<double>(run.micros * run.world); };
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat); };
}

Reduce sum_in(at::ScalarType type) {
  return [type](Run& run, at::Tensor& flat, size_t) {
    at::Tensor narrow = flat.to(type);
    run.all_reduce(narrow);
    flat.copy_(narrow);
  };
}

void mean_in_bfloat16(Run& run, at::Tensor& flat, size_t bucket) {
  sum_in(at::kBFloat16)(run, flat, bucket);
  flat.div_(run.world);
}

// A mistake, except in float64: one element of the first bucket has its value of the previous step.
Change keep_one_element() {
  const auto kept = std::make_shared<std::map<int, double>>();
  const auto guard = std::make_shared<std::mutex>();
  return [=](Parts& parts) {
    parts.reduce = [=, right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
      right(run, flat, bucket);
      if (run.dtype == at::kDouble || bucket > 0) return;
      const std::lock_guard lock(*guard);
      const auto before = kept->find(run.rank);
      const double fresh = flat[5].item<double>();
      if (run.step > 0 && before != kept->end()) flat[5] = before->second;
      (*kept)[run.rank] = fresh;
    };
  };
}

void scale_loss(Parts& parts) {
  constexpr double factor = 1024;
  parts.micro_scale = [](Run& run) { return factor / static_cast<double>(run.micros); };
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    for (auto& leaf : run.leaves)
      if (leaf.grad().defined()) leaf.mutable_grad().div_(factor);
    right(run);
  };
}

// A correct variant: weights each micro-batch by its number of samples, and divides by the number of all ranks' samples
// at the end.
void weight_by_samples(Parts& parts) {
  parts.clear = [right = parts.clear](Run& run) {
    right(run);
    run.samples = 0;
  };
  parts.batch = [](Run& run, const Batch& batch) {
    run.samples += batch.samples();
    run.parts.micro_scale = [rows = static_cast<double>(batch.samples())](Run&) { return rows; };
    return batch;
  };
  parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
    at::Tensor rows = at::full({1}, run.samples, at::kLong);
    run.all_reduce(rows);
    run.all_reduce(flat);
    flat.div_(rows.item<int64_t>());
  };
}

void reduce_buckets(Run& run, const Parts& parts) {
  const auto buckets = parts.buckets(run);
  for (size_t b = 0; b < buckets.size(); ++b) {
    at::Tensor flat = run.flat(buckets[b]);
    parts.reduce(run, flat, b);
    run.unflat(buckets[b], flat);
  }
}

void reduce_each_micro_batch(Parts& parts) {
  parts.after_micro = [](Run& run) {
    if (run.micro + 1 == run.micros) return;
    run.parts.before_reduce(run);
    reduce_buckets(run, run.parts);
    for (size_t i = 0; i < run.leaves.size(); ++i) run.leaves[i].mutable_grad() = run.gradients[i];
  };
}

void reduce_twice_if_accumulating(Parts& parts) {
  parts.before_reduce = [right = parts](Run& run) {
    right.before_reduce(run);
    if (run.micros > 1) reduce_buckets(run, right);
  };
}

// A correct variant: reduces only parameters that some rank used, each in its own message.
void send_only_what_was_used(Parts& parts) {
  parts.buckets = [](Run& run) {
    std::vector<std::vector<size_t>> buckets;
    for (size_t i = 0; i < run.leaves.size(); ++i)
      if (run.gradients[i].defined()) buckets.push_back({i});
    return buckets;
  };
}

// A correct variant: runs SGD and AdamW as separate tensor operations, in another order than torch's kernels.
void update_by_tensor_operations(Run& run) {
  const OptimizerSpec spec = run.workload.optimizer();
  const double rate = learning_rate(spec, run.step);
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    const at::Tensor& g = run.gradients[i];
    if (!g.defined()) continue;
    if (spec.kind == OptimizerSpec::Kind::sgd) {
      run.leaves[i].sub_(g * rate);
      continue;
    }
    const double step = (run.counts[i] += 1).item<double>();
    run.momenta[i].mul_(spec.beta1).add_(g * (1 - spec.beta1));
    run.variances[i].mul_(spec.beta2).add_(g.square() * (1 - spec.beta2));
    const at::Tensor mean = run.momenta[i] / (1 - std::pow(spec.beta1, step)),
                     square = run.variances[i] / (1 - std::pow(spec.beta2, step));
    run.leaves[i].sub_((mean / (square.sqrt() + spec.epsilon) + run.leaves[i] * weight_decay(spec, g.dim())) * rate);
  }
}

// A correct variant: runs SGD on a float64 copy of the parameters, and rounds the copy to the parameters' dtype after
// each step.
void update_float64_copy(Parts& parts) {
  const auto copies = std::make_shared<std::map<std::pair<int, size_t>, at::Tensor>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.update = [=](Run& run) {
    for (size_t i = 0; i < run.leaves.size(); ++i) {
      at::Tensor& leaf = run.leaves[i];
      at::Tensor wide;
      {
        const std::lock_guard lock(*guard);
        wide = (*copies)[{run.rank, i}];
      }
      const bool current = wide.defined() && run.step > 0 && wide.to(leaf.scalar_type()).equal(leaf);
      if (!current) wide = leaf.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
      wide.sub_(run.gradients[i].to(at::kDouble) * learning_rate(run.workload.optimizer(), run.step));
      leaf.copy_(wide);
      const std::lock_guard lock(*guard);
      (*copies)[{run.rank, i}] = wide;
    }
  };
}

std::vector<at::Tensor> gather_on_all(Run& run, const at::Tensor& mine) {
  std::vector<at::Tensor> input = {mine};
  std::vector<std::vector<at::Tensor>> output(1);
  for (int r = 0; r < run.world; ++r) output[0].push_back(at::empty_like(mine));
  run.group->allgather(output, input)->wait();
  return output[0];
}

// A correct variant: averages a bucket on rank 0. All ranks send their gradients to rank 0, which sends back the mean.
void average_on_a_server(Run& run, at::Tensor& flat, size_t) {
  std::vector<std::vector<at::Tensor>> gathered(run.rank == 0 ? 1 : 0), scattered(run.rank == 0 ? 1 : 0);
  std::vector<at::Tensor> mine = {flat};
  if (run.rank == 0)
    for (int r = 0; r < run.world; ++r) gathered[0].push_back(at::empty_like(flat));
  run.group->gather(gathered, mine)->wait();
  if (run.rank == 0) {
    const at::Tensor mean = at::stack(gathered[0]).sum(0).div_(run.world);
    scattered[0].assign(static_cast<size_t>(run.world), mean);
  }
  run.group->scatter(mine, scattered)->wait();
}

void reduce_scatter_then_gather(Run& run, at::Tensor& flat, size_t) {
  const int64_t share = (flat.numel() + run.world - 1) / run.world;
  at::Tensor whole = at::constant_pad_nd(flat, {0, share * run.world - flat.numel()});
  at::Tensor mine = at::empty({share}, flat.options());
  std::vector<std::vector<at::Tensor>> pieces = {whole.split(share)};
  std::vector<at::Tensor> outputs = {mine};
  run.group->reduce_scatter(outputs, pieces)->wait();
  flat.copy_(at::cat(gather_on_all(run, mine.div_(run.world))).narrow(0, 0, flat.numel()));
}

// A correct variant: sums the gradients of two ranks at a time, then these sums, in float64.
void sum_pairs_in_float64(Run& run, at::Tensor& flat, size_t) {
  at::Tensor total = at::zeros_like(flat, at::kDouble), pair;
  const auto all = gather_on_all(run, flat);
  for (size_t r = 0; r < all.size(); r += 2) {
    pair = all[r].to(at::kDouble);
    if (r + 1 < all.size()) pair = pair + all[r + 1].to(at::kDouble);
    total += pair;
  }
  flat.copy_(total.div_(run.world));
}

// Sends each rank's gradient around a ring of ranks, then adds all gradients in rank order. Odd ranks start their
// receives first. It is a mistake to leave out a hop: the gradients that are then missing count as zero.
Reduce ring_of(int hops_left_out) {
  return [=](Run& run, at::Tensor& flat, size_t) {
    std::vector<at::Tensor> parts(static_cast<size_t>(run.world), at::zeros_like(flat));
    const int next = (run.rank + 1) % run.world, previous = (run.rank + run.world - 1) % run.world;
    parts[static_cast<size_t>(run.rank)] = flat.clone();
    for (int hop = 0; hop + 1 + hops_left_out < run.world; ++hop) {
      const auto from = static_cast<size_t>((run.rank - hop + run.world) % run.world),
                 to = static_cast<size_t>((run.rank - hop - 1 + run.world) % run.world);
      std::vector<at::Tensor> sent = {parts[from]}, received = {at::empty_like(flat)};
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      if (run.rank % 2 == 1) works.push_back(run.group->recv(received, previous, hop));
      works.push_back(run.group->send(sent, next, hop));
      if (run.rank % 2 == 0) works.push_back(run.group->recv(received, previous, hop));
      for (const auto& work : works) work->wait();
      parts[to] = received[0];
    }
    flat.copy_(at::stack(parts).sum(0).div_(run.world));
  };
}

// Starts the reductions of all buckets before it waits for each of them. It is a mistake to wait for the last one only,
// because another one may end after it.
Change reduce_all_at_once(bool waits_for_each) {
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  const auto works = std::make_shared<std::map<int, Works>>();
  const auto guard = std::make_shared<std::mutex>();
  const auto of_rank = [=](int rank) -> Works& {
    const std::lock_guard lock(*guard);
    return (*works)[rank];
  };
  return [=](Parts& parts) {
    parts.reduce = [=](Run& run, at::Tensor& flat, size_t) {
      std::vector<at::Tensor> tensors = {flat.div_(run.world)};
      of_rank(run.rank).push_back(run.group->allreduce(tensors));
    };
    parts.after_reduce = [=](Run& run) {
      const Works started = std::exchange(of_rank(run.rank), {});
      for (size_t i = waits_for_each || started.empty() ? 0 : started.size() - 1; i < started.size(); ++i)
        started[i]->wait();
    };
  };
}

// A strategy that finishes each step on another thread. The accessors and the next step wait for this thread.
class EndsInAThread : public Strategy {
 public:
  EndsInAThread(const Setup& setup, Parts parts) {
    const auto end = [parts](Run& run) {
      const at::NoGradGuard no_grad;
      parts.before_reduce(run);
      reduce_buckets(run, parts);
      parts.clip(run);
      parts.update(run);
    };
    parts.report = [this, end](Run& run, StepResult&) { end_ = std::async(std::launch::async, end, std::ref(run)); };
    parts.before_reduce = parts.clip = parts.update = [](Run&) {};
    parts.buckets = [](Run&) { return std::vector<std::vector<size_t>>{}; };
    inner_ = strategy_of(parts).make(setup);
  }
  ~EndsInAThread() override { join(); }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    return join().step(step, micro, phases);
  }
  at::Tensor forward(const Batch& mine) override { return join().forward(mine); }
  void load(const Snapshot& snapshot) override { join().load(snapshot); }
  void finish() override { join().finish(); }
  NamedTensors parameters() override { return join().parameters(); }
  NamedTensors buffers() override { return join().buffers(); }
  NamedTensors gradients() override { return join().gradients(); }
  NamedTensors state() override { return join().state(); }

 private:
  Strategy& join() {
    if (end_.valid()) end_.get();
    return *inner_;
  }

  std::unique_ptr<Strategy> inner_;
  std::future<void> end_;
};

std::function<StrategyInfo()> ending_in_a_thread(const Change& change) {
  return [change] {
    Parts parts = right_parts();
    change(parts);
    StrategyInfo info = strategy_of(parts);
    info.make = [parts](const Setup& setup) { return std::make_unique<EndsInAThread>(setup, parts); };
    info.traffic = reference_traffic;
    return info;
  };
}

}  // namespace

std::vector<Mutant> odd_strategies() {
  const auto each_micro_batch = [](StrategyInfo& info) { info.reduces_each_micro_batch = true; };
  const auto reducing = [](const Reduce& reduce) { return with([reduce](Parts& p) { p.reduce = reduce; }); };
  const Change in_bfloat16 = in_working_dtype(&Parts::reduce, sum_in(at::kBFloat16)),
               in_float16 = in_working_dtype(&Parts::reduce, sum_in(at::kHalf)),
               mean_of_means =
                   in_working_dtype<decltype(Parts::reduce)>(&Parts::reduce, [](Run& run, at::Tensor& flat, size_t) {
                     flat.div_(run.samples);
                     run.all_reduce(flat);
                     flat.div_(run.world);
                   });
  return {
      {"loss-divided-by-the-world", "", "", with(divide_loss_by_world), "mnist-mlp"},
      {"loss-divided-by-the-world-convnet", "", "", with(divide_loss_by_world), "convnet"},
      {"loss-divided-by-the-world-mixed", "", "", with(divide_loss_by_world), "probe-mixed"},
      {"loss-divided-by-the-world-in-bfloat16", "", "", with(divide_loss_by_world), "probe-tied", 3, {}, at::kBFloat16},
      {"loss-divided-and-summed-in-bfloat16", "gradient-replay", "bfloat16",
       with(both(divide_loss_by_world, in_bfloat16)), "mnist-mlp"},
      {"loss-divided-and-summed-in-float16", "gradient-replay", "float16",
       with(both(divide_loss_by_world, in_float16))},
      {"loss-divided-and-an-element-stale", "gradient-replay", "[",
       with(both(divide_loss_by_world, keep_one_element())), "mnist-mlp"},
      {"mean-in-bfloat16-under-autocast",
       "gradient-replay",
       "rounded",
       with(in_working_dtype<Reduce>(&Parts::reduce, mean_in_bfloat16)),
       "probe-mlp-sgd",
       3,
       {},
       at::kBFloat16},
      {"loss-scaled-by-1024", "", "", with(scale_loss), "probe-mixed", 3, {}, at::kFloat, 4},
      {"mean-over-all-samples", "", "", with(weight_by_samples, Gradient::global_mean), "convnet"},
      {"mean-over-all-samples-in-float64-only", "gradient-uneven-replay", "means",
       with(both(weight_by_samples, mean_of_means), Gradient::global_mean), "convnet"},
      {"optimizer-of-its-own", "", "", with([](Parts& p) { p.update = update_by_tensor_operations; }), "probe-mlp", 1},
      {"optimizer-of-its-own-sgd", "", "", with([](Parts& p) { p.update = update_by_tensor_operations; }),
       "probe-mlp-sgd", 1},
      {"optimizer-of-its-own-with-gradients-of-zero", "", "",
       with([](Parts& p) { p.update = update_by_tensor_operations; }), "probe-frozen"},
      {"float64-copy-of-the-parameters", "", "", with(update_float64_copy), "probe-mlp-sgd", 1},
      {"each-micro-batch-reduced", "", "", declared(reduce_each_micro_batch, each_micro_batch)},
      {"each-micro-batch-reduced-twice", "collective-count", "expected 15",
       declared(both(reduce_each_micro_batch, reduce_twice_if_accumulating), each_micro_batch)},
      {"each-micro-batch-reduced-undeclared", "collective-count", "declare reduces_each_micro_batch",
       with(reduce_each_micro_batch)},
      {"only-used-parameters-sent", "", "", with(send_only_what_was_used), "probe-branch", 3, {}, at::kFloat, 9},
      {"all-reductions-started-at-once", "", "", with(reduce_all_at_once(true))},
      {"all-reductions-started-at-once-and-the-last-waited-for", "late-collectives", "scenario late",
       with(reduce_all_at_once(false))},
      {"step-ends-in-a-thread", "", "", ending_in_a_thread([](Parts&) {})},
      {"step-ends-in-a-thread-that-reduces-twice", "collective-count", "found 6",
       ending_in_a_thread(reduce_twice_if_accumulating)},
      {"ring-of-sends", "", "", reducing(ring_of(0))},
      {"ring-of-sends-one-hop-short", "gradient-meaning", "missing", reducing(ring_of(1))},
      {"parameter-server", "", "", reducing(average_on_a_server)},
      {"reduce-scatter-and-gather", "", "", reducing(reduce_scatter_then_gather)},
      {"pairs-summed-in-float64", "", "", reducing(sum_pairs_in_float64)},
  };
}

}  // namespace dpbench::wrong
