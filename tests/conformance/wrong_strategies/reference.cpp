#include "tests/conformance/wrong_strategies/reference.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "strategies/api/trained_parameters.h"
#include "tests/conformance/wrong_strategies/of_both_references.h"
#include "workloads/layers/autocast.h"

namespace dpbench::wrong {
namespace {

// Runs the forward pass. With dtype bfloat16, the forward pass runs under autocast and the parameters stay in float32.
at::Tensor forward(Run& run, const Batch& batch, int64_t step) {
  const bool on = run.dtype == at::kBFloat16 && run.parts.autocast;
  const Autocast autocast(on, at::kCPU);
  const at::Tensor output = run.model->forward(batch.input, {run.step_seed, step, batch.ids});
  return on ? output.to(at::kFloat) : output;
}

void start(Run& run) {
  for (const auto& item : run.model->named_parameters()) run.broadcast(item.value().detach());
  for (const auto& item : run.model->named_buffers()) run.broadcast(item.value());
}

void sync_buffers(Run& run) {
  for (const auto& item : run.model->named_buffers()) run.broadcast(item.value());
}

void clear(Run& run) {
  for (auto& leaf : run.leaves) leaf.mutable_grad().reset();
}

// Fills run.gradients. A parameter that only other ranks used gets a zero gradient here; a parameter that no rank used
// keeps an undefined gradient.
void before_reduce(Run& run) {
  at::Tensor used = at::zeros({static_cast<int64_t>(run.leaves.size())}, at::kInt);
  for (size_t i = 0; i < run.leaves.size(); ++i) used[static_cast<int64_t>(i)] = run.leaves[i].grad().defined() ? 1 : 0;
  run.all_reduce(used);
  run.gradients.clear();
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    const at::Tensor& mine = run.leaves[i].grad();
    const bool any = used[static_cast<int64_t>(i)].item<int>() > 0;
    run.gradients.push_back(!any ? at::Tensor() : mine.defined() ? mine : at::zeros_like(run.leaves[i]));
  }
}

std::vector<std::vector<size_t>> buckets(Run& run) {
  std::vector<std::vector<size_t>> result;
  double room = 0;
  for (size_t i = run.leaves.size(); i-- > 0;) {
    if (!run.gradients[i].defined()) continue;
    const auto bytes = static_cast<double>(run.leaves[i].nbytes());
    const bool same = !result.empty() && run.leaves[result.back().front()].scalar_type() == run.leaves[i].scalar_type();
    if (!same || bytes > room) result.emplace_back(), room = run.bucket_bytes;
    result.back().push_back(i);
    room -= bytes;
  }
  return result;
}

void reduce(Run& run, at::Tensor& flat, size_t) {
  run.all_reduce(flat);
  flat.div_(run.world);
}

void clip(Run& run) {
  if (!run.clip_norm) return;
  double squares = 0;
  for (const auto& gradient : run.gradients)
    if (gradient.defined()) squares += gradient.to(at::kDouble).square().sum().item<double>();
  const double factor = clip_factor(run.clip_norm, squares);
  if (factor < 1)
    for (auto& gradient : run.gradients)
      if (gradient.defined()) gradient.mul_(factor);
}

// Runs the optimizer step with the baseline's fused kernels, so that training with one rank is bit-identical to the
// baseline.
void update(Run& run) {
  const OptimizerSpec spec = run.workload.optimizer();
  const double rate = learning_rate(spec, run.step);
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    if (!run.gradients[i].defined()) continue;
    std::vector<at::Tensor> leaf = {run.leaves[i]}, gradient = {run.gradients[i]}, momentum;
    if (!run.momenta.empty()) momentum = {run.momenta[i]};
    if (spec.kind == OptimizerSpec::Kind::adam) {
      run.counts[i] += 1;
      at::_fused_adamw_(leaf, gradient, momentum, {run.variances[i]}, {}, {run.counts[i]}, rate, spec.beta1, spec.beta2,
                        weight_decay(spec, leaf[0].dim()), spec.epsilon, false, false);
    } else if (at::isReducedFloatingType(leaf[0].scalar_type()) && momentum.empty()) {
      // the step is written out, because _fused_sgd_ does not support float16 and bfloat16
      leaf[0].sub_(gradient[0], rate);
    } else {
      at::_fused_sgd_(leaf, gradient, momentum, 0, spec.momentum, rate, 0, false, false, false);
    }
  }
}

at::Tensor evaluate(Run& run, const Batch& batch) {
  run.model->eval();
  const Batch mine = cast_for(run.dtype, batch);
  const at::Tensor output = forward(run, mine, 0);
  run.model->train();
  return output;
}

NamedTensors reported_gradients(Run& run) {
  NamedTensors result;
  for (size_t i = 0; i < run.leaves.size(); ++i)
    result.emplace_back(run.names[i], i < run.gradients.size() ? run.gradients[i] : at::Tensor());
  return result;
}

class Reference : public Strategy {
 public:
  Reference(const Setup& setup, const Parts& parts) : run_(setup, parts) { run_.parts.start(run_); }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases&) override {
    Run& run = run_;
    run.step = step;
    run.micros = static_cast<int64_t>(micro.size());
    {
      const at::NoGradGuard no_grad;
      run.parts.sync_buffers(run);
      run.parts.clear(run);
    }
    StepResult result;
    for (run.micro = 0; run.micro < run.micros; ++run.micro)
      run_micro_batch(micro[static_cast<size_t>(run.micro)], result);
    const at::NoGradGuard no_grad;
    run.parts.before_reduce(run);
    const auto buckets = run.parts.buckets(run);
    for (size_t b = 0; b < buckets.size(); ++b) {
      at::Tensor flat = run.flat(buckets[b]);
      run.parts.reduce(run, flat, b);
      run.unflat(buckets[b], flat);
    }
    run.parts.after_reduce(run);
    run.parts.clip(run);
    run.parts.update(run);
    run.parts.report(run, result);
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    const at::NoGradGuard no_grad;
    return run_.parts.evaluate(run_, mine);
  }
  void load(const Snapshot& snapshot) override {
    Snapshot loaded = snapshot;
    run_.parts.before_load(run_, loaded);
    Strategy::load(loaded);
  }
  void finish() override {
    const at::NoGradGuard no_grad;
    run_.parts.finish(run_);
  }
  NamedTensors parameters() override {
    NamedTensors result;
    for (const auto& item : run_.model->named_parameters()) result.emplace_back(item.key(), item.value());
    return result;
  }
  NamedTensors buffers() override { return named_buffers(*run_.model); }
  NamedTensors gradients() override { return run_.parts.reported_gradients(run_); }
  NamedTensors state() override {
    NamedTensors result;
    const auto slots = state_slots(run_.workload.optimizer());
    for (size_t i = 0; i < run_.momenta.size(); ++i)
      for (const Slot slot : slots)
        result.emplace_back(state_name(run_.names[i], slot), slot == Slot::step       ? run_.counts[i]
                                                             : slot == Slot::variance ? run_.variances[i]
                                                                                      : run_.momenta[i]);
    run_.parts.reported_state(run_, result);
    return result;
  }

 private:
  void run_micro_batch(const Batch& batch, StepResult& result) {
    const Batch mine = cast_for(run_.dtype, run_.parts.batch(run_, batch));
    const at::Tensor output = wrong::forward(run_, mine, run_.step);
    const at::Tensor loss = run_.parts.loss(run_, mine, output);
    (loss * run_.parts.micro_scale(run_)).backward();
    add_micro(result, output, loss / static_cast<double>(run_.micros));
    const at::NoGradGuard no_grad;
    run_.parts.after_micro(run_);
  }

  Run run_;
};

}  // namespace

Parts right_parts() {
  return {.start = start,
          .sync_buffers = sync_buffers,
          .batch = [](Run&, const Batch& batch) { return batch; },
          .clear = clear,
          .loss = [](Run& run, const Batch& batch,
                     const at::Tensor& output) { return run.workload.loss(output, batch.target); },
          .micro_scale = [](Run& run) { return 1.0 / static_cast<double>(run.micros); },
          .after_micro = [](Run&) {},
          .before_reduce = before_reduce,
          .buckets = buckets,
          .reduce = reduce,
          .after_reduce = [](Run&) {},
          .clip = clip,
          .update = update,
          .report = [](Run&, StepResult&) {},
          .evaluate = evaluate,
          .reported_gradients = reported_gradients,
          .reported_state = [](Run&, NamedTensors&) {},
          .before_load = [](Run&, Snapshot&) {},
          .finish = [](Run&) {}};
}

Run::Run(const Setup& setup, Parts its_parts)
    : parts(std::move(its_parts)),
      workload(setup.workload),
      mesh(setup.mesh),
      group(setup.mesh.group()),
      rank(setup.mesh.group()->getRank()),
      world(setup.mesh.group()->getSize()),
      dtype(setup.dtype),
      step_seed(setup.step_seed),
      clip_norm(setup.clip_norm),
      bucket_bytes(setup.params.number("bucket_mb") * 1024 * 1024),
      model(setup.workload.model(setup.init_seed)) {
  for (auto& item : model->named_buffers()) widen_for(dtype, item.value());
  for (auto& item : model->named_parameters()) {
    widen_for(dtype, item.value());
    const bool known =
        std::any_of(leaves.begin(), leaves.end(), [&](const auto& leaf) { return leaf.is_same(item.value()); });
    if (known || !item.value().requires_grad()) continue;
    names.push_back(item.key());
    leaves.push_back(item.value());
    if (state_slots(workload.optimizer()).empty()) continue;
    momenta.push_back(at::zeros_like(item.value()));
    if (workload.optimizer().kind != OptimizerSpec::Kind::adam) continue;
    variances.push_back(at::zeros_like(item.value()));
    counts.push_back(at::zeros({}));
  }
  model->train();
}

void Run::all_reduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  std::vector<at::Tensor> tensors = {tensor};
  group->allreduce(tensors, options)->wait();
}

void Run::broadcast(const at::Tensor& tensor, int from) {
  const at::NoGradGuard no_grad;
  c10d::BroadcastOptions options;
  options.rootRank = from;
  at::Tensor mine = tensor.detach().contiguous();
  std::vector<at::Tensor> tensors = {mine};
  group->broadcast(tensors, options)->wait();
  if (!mine.is_alias_of(tensor)) at::Tensor(tensor).copy_(mine);
}

at::Tensor Run::flat(const std::vector<size_t>& bucket) {
  std::vector<at::Tensor> flattened;
  for (const size_t i : bucket) flattened.push_back(gradients[i].flatten());
  return at::cat(flattened);
}

void Run::unflat(const std::vector<size_t>& bucket, const at::Tensor& flat) {
  int64_t offset = 0;
  for (const size_t i : bucket) {
    const int64_t count = gradients[i].numel();
    gradients[i] = flat.narrow(0, offset, count).view(gradients[i].sizes());
    if (!leaves[i].is_contiguous())
      gradients[i] = at::empty_like(leaves[i]).copy_(gradients[i]);  // gives the gradient its parameter's strides
    offset += count;
  }
}

bool Run::all_finite() const {
  return std::all_of(gradients.begin(), gradients.end(), [](const at::Tensor& gradient) {
    return !gradient.defined() || gradient.isfinite().all().item<bool>();
  });
}

StrategyInfo strategy_of(Parts parts, Gradient gradient, Buffers buffers) {
  return {.name = "reference",
          .summary = "plain gradients, one allreduce a bucket",
          .parallelism = Parallelism::ranks,
          .gradient = gradient,
          .buffers = buffers,
          .params = {{"bucket_mb", "25", "cap of a bucket"}},
          .settings = {.revealing = {{"bucket_mb", "0.0005"}}},
          .make = [parts = std::move(parts)](const Setup& setup) -> std::unique_ptr<Strategy> {
            return std::make_unique<Reference>(setup, parts);
          },
          .allows_unused = true,
          .allows_no_samples = true};
}

std::optional<std::vector<Traffic>> reference_traffic(const TrafficQuery& query) {
  const NamedTensors trained = trained_parameters(query.model);
  const auto used = static_cast<int64_t>(trained.size() * sizeof(int));
  return std::vector<Traffic>{{"dp", "allreduce", query.bytes_of(trained)},
                              {"dp", "allreduce", used},
                              {"dp", "broadcast", query.bytes_of(named_buffers(query.model))}};
}

}  // namespace dpbench::wrong
