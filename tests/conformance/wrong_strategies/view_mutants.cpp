// Mistakes of gradients that live in their buckets, and of computing in a narrower type than the parameters'.
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// Buckets are rebuilt after the first step, but the gradients are still views of the first ones.
void views_of_the_first_buckets(Parts& parts) {
  const auto first = std::make_shared<std::map<int, std::vector<at::Tensor>>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.after_reduce = [=](Run& run) {
    const std::lock_guard lock(*guard);
    auto& kept = (*first)[run.rank];
    if (run.step == 0)
      kept = run.gradients;
    else
      run.gradients = kept;
  };
}

// A parameter's strides are forgotten: what lies in the bucket in its order is read as if it were contiguous.
void views_without_strides(Run& run) {
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    if (!run.gradients[i].defined() || run.leaves[i].is_contiguous()) continue;
    const at::Tensor placed =
        at::empty_strided(run.leaves[i].sizes(), run.leaves[i].strides(), run.gradients[i].options());
    placed.copy_(run.gradients[i]);
    run.gradients[i] = placed.as_strided(placed.sizes(), at::empty(placed.sizes()).strides());
  }
}

// The next bucket begins an element early: the last of each bucket is the first of the next.
void views_overlap(Run& run) {
  for (size_t i = 1; i < run.gradients.size(); ++i)
    if (run.gradients[i].defined() && run.gradients[i - 1].defined())
      run.gradients[i - 1].flatten()[-1].copy_(run.gradients[i].flatten()[0]);
}

// Views are zeroed, and so never undefined.
void views_of_the_unused(Run& run) {
  for (size_t i = 0; i < run.gradients.size(); ++i)
    if (!run.gradients[i].defined()) run.gradients[i] = at::zeros_like(run.leaves[i]);
}

void views_row_by_row(Run& run) {
  for (auto& gradient : run.gradients) gradient = gradient.contiguous();
}

Mutant in_bfloat16(Mutant mutant) {
  mutant.dtype = at::kBFloat16;
  return mutant;
}

}  // namespace

std::vector<Mutant> view_mutants() {
  const auto after = [](const std::function<void(Run&)>& change) {
    return with([change](Parts& parts) { parts.after_reduce = change; });
  };
  return {
      {"views-of-the-first-buckets", "gradient-meaning", "the step before", with(views_of_the_first_buckets)},
      {"views-without-the-parameters-strides", "gradient-meaning", "another order", after(views_without_strides),
       "probe-strided"},
      {"gradients-row-by-row", "gradient-layout", "parameter kernel, the parameter has strides",
       after(views_row_by_row), "probe-strided"},
      {"views-that-overlap", "gradient-meaning", "[8, 5]", after(views_overlap)},
      {"views-of-what-is-unused", "unused-parameters", "zeros", after(views_of_the_unused), "probe-unused"},
      in_bfloat16(
          {"autocast-ignored", "gradient-replay", "forward pass", with([](Parts& parts) { parts.autocast = false; })}),
      in_bfloat16(
          {"autocast-gradients-rounded-to-bfloat16", "gradient-meaning", "rounded to bfloat16", with([](Parts& parts) {
             parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
               at::Tensor narrow = flat.to(at::kBFloat16);
               run.all_reduce(narrow);
               flat.copy_(narrow.div_(run.world));
             };
           })}),
      in_bfloat16({"autocast-output-left-in-bfloat16", "output-dtype", "found BFloat16", with([](Parts& parts) {
                     parts.report = [](Run& run, StepResult& result) {
                       if (run.dtype == at::kBFloat16) result.output = result.output.to(at::kBFloat16);
                     };
                   })}),
      in_bfloat16({"reference-under-autocast", "", "", with([](Parts&) {})}),
  };
}

}  // namespace dpbench::wrong
