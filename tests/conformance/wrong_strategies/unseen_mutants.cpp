// Mistakes that short scenarios miss if they read the strategy's tensors after every step. The mistakes occur between
// reads, after dozens of steps, in the slots of the optimizer's state, in a loss, or with more samples and
// micro-batches than the smallest scenarios have.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

constexpr char adam_model[] = "probe-mlp", unused_model[] = "probe-unused";

// Holds one value per rank. Thread-safe, because ranks may be threads of one process.
template <class T>
class OfRanks {
 public:
  T& operator[](int rank) {
    const std::lock_guard lock(guard_);
    return values_[rank];
  }

 private:
  std::mutex guard_;
  std::map<int, T> values_;
};

// Reduces only while `condition` holds. Otherwise calls the same collectives, but each rank keeps its own gradient.
std::function<StrategyInfo()> reducing_while(const std::function<bool(Run&)>& condition) {
  return with([condition](Parts& parts) {
    parts.reduce = [condition, right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
      at::Tensor reduced = flat.clone();
      right(run, reduced, bucket);
      if (condition(run)) flat = reduced;
    };
  });
}

void reduce_after_a_look(Parts& parts) {
  const auto looked = std::make_shared<OfRanks<bool>>();
  parts.reported_gradients = [=, right = parts.reported_gradients](Run& run) {
    (*looked)[run.rank] = true;
    return right(run);
  };
  parts.reduce = [=, right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    at::Tensor reduced = flat.clone();
    right(run, reduced, bucket);
    if (run.step == 0 || (*looked)[run.rank]) flat = reduced;
  };
  parts.clip = [=, right = parts.clip](Run& run) {
    (*looked)[run.rank] = false;
    right(run);
  };
}

void update_twice_after_a_look(Parts& parts) {
  const auto since_look = std::make_shared<OfRanks<int64_t>>();
  parts.reported_gradients = [=, right = parts.reported_gradients](Run& run) {
    (*since_look)[run.rank] = 0;
    return right(run);
  };
  parts.update = [=, right = parts.update](Run& run) {
    if (++(*since_look)[run.rank] <= 2) right(run);
  };
}

// A mistake: from the third step after each call of gradients() on, leaves out the updates. Before the first call, the
// strategy is right.
void stop_updating_after_a_look(Parts& parts) {
  constexpr int64_t never = -1;
  const auto since_look = std::make_shared<OfRanks<int64_t>>();
  parts.start = [=, right = parts.start](Run& run) {
    (*since_look)[run.rank] = never;
    right(run);
  };
  parts.reported_gradients = [=, right = parts.reported_gradients](Run& run) {
    (*since_look)[run.rank] = 0;
    return right(run);
  };
  parts.update = [=, right = parts.update](Run& run) {
    int64_t& steps = (*since_look)[run.rank];
    if (steps == never || ++steps <= 2) right(run);
  };
}

bool is_wrapped(Run& run) { return dynamic_cast<ForwardingBackend*>(run.group->getBackend(at::kCPU).get()) != nullptr; }

// A mistake: in all buckets but the first, replaces NaN and infinity by zero before the reduction.
void mask_later_buckets(Parts& parts) {
  parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    if (bucket > 0) flat.nan_to_num_(0, 0, 0);
    right(run, flat, bucket);
  };
}

// A mistake: divides the sum over a short batch by the number of samples of the longest earlier batch.
void weigh_short_batches(Parts& parts) {
  // for each rank: samples in its current batch and in its longest batch so far
  const auto rows = std::make_shared<OfRanks<std::pair<int64_t, int64_t>>>();
  parts.batch = [=, right = parts.batch](Run& run, const Batch& batch) {
    auto& [now, most] = (*rows)[run.rank];
    now = batch.samples();
    // Most scenarios that read the strategy's tensors after every step end before step 20.
    if (run.step > 20) most = std::max(most, now);
    return right(run, batch);
  };
  parts.after_reduce = [=, right = parts.after_reduce](Run& run) {
    right(run);
    const auto [now, most] = (*rows)[run.rank];
    if (most > now)
      for (auto& gradient : run.gradients)
        if (gradient.defined()) gradient.mul_(static_cast<double>(now) / static_cast<double>(most));
  };
}

// A mistake: evaluates at most as many samples as the longest training batch had. As outputs of all further samples, it
// returns those of the first samples again.
void evaluate_at_most_a_batch(Parts& parts) {
  const auto most = std::make_shared<OfRanks<int64_t>>();
  parts.batch = [=, right = parts.batch](Run& run, const Batch& batch) {
    (*most)[run.rank] = std::max((*most)[run.rank], batch.samples());
    return right(run, batch);
  };
  parts.evaluate = [=, right = parts.evaluate](Run& run, const Batch& batch) {
    const at::Tensor kept = at::arange(batch.samples()).remainder((*most)[run.rank]);
    return right(run, Batch{batch.input.index_select(0, kept), batch.target, batch.ids.index_select(0, kept)});
  };
}

// A mistake: divides by the number of micro-batches that the first step had.
void divide_by_the_first_micros(Parts& parts) {
  const auto first = std::make_shared<OfRanks<int64_t>>();
  parts.micro_scale = [=](Run& run) {
    int64_t& micros = (*first)[run.rank];
    if (run.step == 0 || micros == 0) micros = run.micros;
    return 1.0 / static_cast<double>(micros);
  };
}

void clip_by_the_first_bucket(Run& run) {
  const auto buckets = run.parts.buckets(run);
  if (!run.clip_norm || buckets.empty()) return;
  double squares = 0;
  for (const size_t i : buckets.front()) squares += run.gradients[i].square().sum().item<double>();
  const double factor = std::min(1.0, *run.clip_norm / (std::sqrt(squares) + 1e-6));
  for (auto& gradient : run.gradients) gradient.mul_(factor);
}

// Returns a strategy that replaces NaN and infinity in each rank's gradients by zero if `condition` holds.
std::function<StrategyInfo()> masking_if(const std::function<bool(const Run&)>& condition) {
  return with([condition](Parts& parts) {
    parts.before_reduce = [condition, right = parts.before_reduce](Run& run) {
      right(run);
      for (auto& gradient : run.gradients)
        if (gradient.defined() && condition(run)) gradient = gradient.nan_to_num(0, 0, 0);
    };
  });
}

}  // namespace

std::vector<Mutant> unseen_mutants() {
  return {
      {"reduced-in-the-first-24-steps", "trajectory", "losses", reducing_while([](Run& run) { return run.step < 24; })},
      {"reduced-in-all-steps-but-the-fortieth", "trajectory", "up to step 40",
       reducing_while([](Run& run) { return run.step != 40; })},
      {"reduced-only-after-a-look", "trajectory", "losses", with(reduce_after_a_look)},
      {"not-updated-from-the-third-step-after-a-look", "trajectory", "losses", with(update_twice_after_a_look)},
      {"not-updated-from-the-third-step-after-the-first-look", "trajectory", "losses",
       with(stop_updating_after_a_look)},
      {"reduced-only-over-a-wrapped-backend", "trajectory", "losses", reducing_while(is_wrapped)},
      {"rate-halved-from-step-30-on", "trajectory", "losses", with([](Parts& parts) {
         parts.after_reduce = [right = parts.after_reduce](Run& run) {
           right(run);
           if (run.step >= 30)
             for (auto& gradient : run.gradients) gradient.mul_(0.5);
         };
       })},
      {"gradients-rounded-to-bfloat16-from-step-30-on", "trajectory", "losses", with([](Parts& parts) {
         parts.after_reduce = [](Run& run) {
           if (run.step >= 30)
             for (auto& gradient : run.gradients) gradient.copy_(gradient.to(at::kBFloat16));
         };
       })},
      {"short-batches-weigh-less", "trajectory", "losses", with(weigh_short_batches)},
      {"momentum-and-variance-reported-under-each-others-name", "optimizer-state", "swapped", with([](Parts& parts) {
         parts.reported_state = [](Run&, NamedTensors& state) {
           for (auto& [name, tensor] : state) {
             const auto dot = name.rfind('.');
             const std::string parameter = name.substr(0, dot), slot = name.substr(dot);
             name = parameter + (slot == ".momentum" ? ".variance" : slot == ".variance" ? ".momentum" : slot);
           }
         };
       }),
       adam_model},
      {"steps-counted-without-a-gradient", "optimizer-state", "no gradient", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           right(run);
           for (size_t i = 0; i < run.leaves.size(); ++i)
             if (!run.gradients[i].defined()) run.counts[i].add_(1);
         };
       }),
       unused_model},
      {"micro-batches-beyond-the-third-forgotten", "accumulation", "micro-batch", with([](Parts& parts) {
         parts.micro_scale = [right = parts.micro_scale](Run& run) { return run.micro < 3 ? right(run) : 0; };
       })},
      {"clipped-by-the-first-bucket", "clip", "parameter",
       with([](Parts& parts) { parts.clip = clip_by_the_first_bucket; })},
      {"loss-that-is-not-a-number-reported-as-zero", "non-finite", "loss", with([](Parts& parts) {
         parts.report = [right = parts.report](Run& run, StepResult& result) {
           right(run, result);
           result.loss = at::nan_to_num(result.loss, 0, 0, 0);
         };
       })},
      {"NaN-masked-if-there-are-several-micro-batches", "non-finite", "masked",
       masking_if([](const Run& run) { return run.micros > 1; })},
      {"NaN-masked-if-gradients-are-clipped", "non-finite", "masked",
       masking_if([](const Run& run) { return run.clip_norm.has_value(); })},
      {"NaN-in-later-buckets-masked", "non-finite", "masked|scenario poison", with(mask_later_buckets)},
      {"elements-that-are-not-numbers-not-updated", "non-finite", "update", with([](Parts& parts) {
         parts.update = [right = parts.update](Run& run) {
           const auto gradients = run.gradients;
           for (auto& gradient : run.gradients)
             if (gradient.defined()) gradient = at::nan_to_num(gradient, 0, 0, 0);
           right(run);
           run.gradients = gradients;
         };
       })},
      {"evaluated-in-training-mode-on-later-samples", "evaluation", "training mode", with([](Parts& parts) {
         parts.evaluate = [right = parts.evaluate](Run& run, const Batch& batch) {
           if (batch.ids.min().item<int64_t>() < 8) return right(run, batch);
           run.model->train();
           const at::Tensor output = run.model->forward(batch.input.to(run.leaves.front().scalar_type()),
                                                        Context{run.step_seed, run.step, batch.ids});
           return output.detach();
         };
       }),
       adam_model},
      {"at-most-a-batch-evaluated", "evaluation", "index", with(evaluate_at_most_a_batch)},
      {"divided-by-the-micro-batches-of-the-first-step", "accumulation", "scenario uneven-accumulate",
       with(divide_by_the_first_micros)},
  };
}

}  // namespace dpbench::wrong
