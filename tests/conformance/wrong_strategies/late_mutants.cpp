// Mistakes that begin late or show only at one moment: in a later step, at the end of an epoch, after a resume, or in
// the last call to the strategy.
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

constexpr int64_t late_from = 4;  // mistakes begin at this step, counted from 0; most check scenarios end before it

using RunStep = std::function<void(Run&)>;

std::function<StrategyInfo()> stepping_late(const std::function<void(Run&, const RunStep& right)>& late) {
  return with([late](Parts& parts) {
    parts.update = [late, right = parts.update](Run& run) { run.step < late_from ? right(run) : late(run, right); };
  });
}

std::function<StrategyInfo()> resuming(const std::function<void(Run&, Snapshot&)>& change) {
  return with([change](Parts& parts) { parts.before_load = change; });
}

// A mistake: pads a short last micro-batch to the size of the step's first micro-batch by repeating its own samples.
void pad_the_rest(Parts& parts) {
  const auto first = std::make_shared<std::map<int, int64_t>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.batch = [=](Run& run, const Batch& batch) {
    const std::lock_guard lock(*guard);
    int64_t& samples = (*first)[run.rank];
    if (run.micro == 0) samples = batch.samples();
    if (batch.samples() >= samples) return batch;
    const at::Tensor padded = at::arange(samples).remainder(batch.samples());
    return Batch{batch.input.index_select(0, padded), batch.target.index_select(0, padded),
                 batch.ids.index_select(0, padded)};
  };
}

// A mistake: seeds dropout with the strategy object's own step count instead of the global step, so the masks differ
// after a resume.
void count_own_steps(Parts& parts) {
  parts.start = [right = parts.start](Run& run) {
    right(run);
    run.parts.clear = [count = std::make_shared<int64_t>(0), clear = run.parts.clear](Run& again) {
      clear(again);
      again.step = (*count)++;
    };
  };
}

// A mistake: resumes from the momentum that this process had last, which equals the snapshot's only if this process
// wrote the snapshot.
void resume_from_memory(Parts& parts) {
  const auto last = std::make_shared<std::map<int, std::vector<at::Tensor>>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.update = [=, right = parts.update](Run& run) {
    right(run);
    const std::lock_guard lock(*guard);
    auto& mine = (*last)[run.rank];
    mine.clear();
    for (const at::Tensor& momentum : run.momenta) mine.push_back(momentum.clone());
  };
  parts.before_load = [=](Run& run, Snapshot& snapshot) {
    const std::lock_guard lock(*guard);
    const auto& mine = (*last)[run.rank];
    size_t i = 0;
    for (auto& [name, tensor] : snapshot.state)
      if (name.ends_with(".momentum") && i < mine.size()) tensor = mine[i++];
  };
}

// A mistake: if the strategy object has taken steps, it ignores the snapshot's momentum on a resume and keeps its own.
void load_momentum_into_a_fresh_object_only(Run& run, Snapshot& snapshot) {
  if (run.gradients.empty()) return;
  size_t i = 0;
  for (auto& [name, tensor] : snapshot.state)
    if (name.ends_with(".momentum")) tensor = run.momenta[i++];
}

Batch reuse_batch_memory(Run&, const Batch& batch) {
  const Batch mine{batch.input.clone(), batch.target.clone(), batch.ids};
  batch.input.detach().zero_();
  return mine;
}

void broadcast_floating_buffers_only(Run& run) {
  for (const auto& item : run.model->named_buffers())
    if (item.value().is_floating_point()) run.broadcast(item.value());
}

}  // namespace

std::vector<Mutant> late_mutants() {
  const std::string adam = "probe-mlp", norm = "probe-batch-norm";
  return {
      {"adam-momentum-lost-from-step-4-on", "optimizer-replay", "scenario twenty",
       stepping_late([](Run& run, const RunStep& right) {
         for (auto& momentum : run.momenta) momentum.zero_();
         right(run);
       }),
       adam},
      {"adam-counts-no-further-than-4", "optimizer-replay", "scenario twenty",
       stepping_late([](Run& run, const RunStep& right) {
         for (auto& count : run.counts) count.fill_(static_cast<double>(late_from));
         right(run);
       }),
       adam},
      {"adam-variance-of-one-weight-lost-from-step-4-on", "optimizer-replay", "w2",
       stepping_late([](Run& run, const RunStep& right) {
         run.variances[4].mul_(0.5);
         right(run);
       }),
       adam},
      {"stepped-twice-in-step-7-only", "optimizer-replay", "step 7", stepping_late([](Run& run, const RunStep& right) {
         right(run);
         if (run.step == 7) right(run);
       })},
      {"gradient-doubled-in-step-7-only", "gradient-later", "2 times", with([](Parts& parts) {
         parts.after_reduce = [](Run& run) {
           for (auto& gradient : run.gradients)
             if (run.step == 7) gradient.mul_(2);
         };
       })},
      {"state-of-rank-2-apart-from-step-4-on", "ranks-agree-state", "scenario twenty",
       stepping_late([](Run& run, const RunStep& right) {
         right(run);
         if (run.rank == 2) run.variances[0].mul_(1.001);
       }),
       adam},
      {"buffers-not-broadcast-from-step-4-on", "buffers-replay", "not broadcast", with([](Parts& parts) {
         parts.sync_buffers = [right = parts.sync_buffers](Run& run) {
           if (run.step < late_from) right(run);
         };
       }),
       norm},
      {"masks-repeat-every-16-steps", "gradient-later", "forward", with([](Parts& parts) {
         parts.clear = [right = parts.clear](Run& run) {
           right(run);
           run.step %= 16;
         };
       }),
       adam},
      {"resumed-at-the-masks-of-step-0", "reload-midway", "forward", with(count_own_steps), adam},
      {"resumed-without-the-count-of-steps", "optimizer-replay", "scenario reload",
       resuming([](Run&, Snapshot& snapshot) {
         for (auto& [name, tensor] : snapshot.state)
           if (name.ends_with(".step")) tensor = at::zeros_like(tensor);
       }),
       adam},
      {"bias-corrected-by-the-number-of-the-step", "load-other-state", "load()", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           for (auto& count : run.counts) count.fill_(run.step);
           right(run);
         };
       }),
       adam},
      {"momentum-resumed-from-the-memory-of-the-process", "load-other-state", "load()", with(resume_from_memory), adam},
      {"momentum-loaded-into-a-fresh-object-only", "load-other-state", "load()",
       resuming(load_momentum_into_a_fresh_object_only), adam},
      {"rank-1-does-not-resume", "ranks-agree-parameters", "rank 1, step 1, scenario reload",
       resuming([](Run& run, Snapshot& snapshot) {
         if (run.rank != 1) return;
         for (auto& [name, tensor] : snapshot.parameters) tensor = run.model->named_parameters()[name].detach().clone();
       })},
      {"rank-that-ran-out-of-rows-adds-its-last-gradient", "empty-shard", "step 1, scenario few",
       with([](Parts& parts) {
         parts.clear = [right = parts.clear](Run& run) {
           if (run.micros > 0) right(run);
         };
       })},
      {"rest-padded-with-its-first-row", "output-shape", "scenario accumulate", with(pad_the_rest)},
      {"clipped-by-the-first-steps-norm", "clip", "step 1", with([](Parts& parts) {
         const auto factors = std::make_shared<std::map<int, double>>();
         const auto guard = std::make_shared<std::mutex>();
         parts.clip = [=](Run& run) {
           if (!run.clip_norm) return;
           const std::lock_guard lock(*guard);
           double squares = 0;
           for (const auto& gradient : run.gradients) squares += gradient.square().sum().item<double>();
           double& factor = (*factors)[run.rank];
           if (run.step == 0) factor = std::min(1.0, *run.clip_norm / std::sqrt(squares));
           for (auto& gradient : run.gradients) gradient.mul_(factor);
         };
       })},
      {"counter-not-sent-at-the-start", "initial-broadcast", "batches", with([](Parts& parts) {
         parts.start = [](Run& run) {
           for (const auto& item : run.model->named_parameters()) run.broadcast(item.value().detach());
           broadcast_floating_buffers_only(run);
         };
       }),
       norm},
      {"counter-differs-by-rank", "buffers", "batches", with([](Parts& parts) {
         parts.sync_buffers = [](Run& run) {
           broadcast_floating_buffers_only(run);
           if (run.rank > 0) run.model->named_buffers()["batches"].add_(1);
         };
       }),
       norm},
      {"one-step-more-at-the-end", "finish", "changed", with([](Parts& parts) { parts.finish = parts.update; })},
      {"batch-memory-reused", "rows-untouched", "input", with([](Parts& parts) { parts.batch = reuse_batch_memory; })},
      {"evaluated-with-the-first-weights", "evaluation", "index", with([](Parts& parts) {
         parts.evaluate = [right = parts.evaluate](Run& run, const Batch& batch) {
           const auto first = run.workload.model(1);
           std::vector<at::Tensor> kept;
           for (auto& item : run.model->named_parameters()) {
             kept.push_back(item.value().detach().clone());
             item.value().copy_(first->named_parameters()[item.key()]);
           }
           const at::Tensor output = right(run, batch);
           size_t i = 0;
           for (auto& item : run.model->named_parameters()) item.value().copy_(kept[i++]);
           return output;
         };
       })},
  };
}

}  // namespace dpbench::wrong
