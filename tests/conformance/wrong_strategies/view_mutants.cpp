// Mistakes with gradients that are views of their buckets, and with computing in a narrower dtype than that of the
// parameters.
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// A mistake: rebuilds the buckets after the first step, but leaves the gradients as views of the old buckets.
void keep_first_bucket_views(Parts& parts) {
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

// A mistake: reads a gradient that is a strided view of its bucket as if it were contiguous.
void drop_strides(Run& run) {
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    if (!run.gradients[i].defined() || run.leaves[i].is_contiguous()) continue;
    const at::Tensor strided =
        at::empty_strided(run.leaves[i].sizes(), run.leaves[i].strides(), run.gradients[i].options());
    strided.copy_(run.gradients[i]);
    run.gradients[i] = strided.as_strided(strided.sizes(), at::empty(strided.sizes()).strides());
  }
}

// A mistake: each gradient's view begins one element early, so it overlaps the end of the previous gradient.
void overlap_views(Run& run) {
  for (size_t i = 1; i < run.gradients.size(); ++i)
    if (run.gradients[i].defined() && run.gradients[i - 1].defined())
      run.gradients[i - 1].flatten()[-1].copy_(run.gradients[i].flatten()[0]);
}

// A mistake: gives unused parameters a zero gradient, where a correct strategy leaves the gradient undefined.
void zero_unused_views(Run& run) {
  for (size_t i = 0; i < run.gradients.size(); ++i)
    if (!run.gradients[i].defined()) run.gradients[i] = at::zeros_like(run.leaves[i]);
}

void make_contiguous(Run& run) {
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
      {"views-of-the-first-buckets", "gradient-meaning", "step before", with(keep_first_bucket_views)},
      {"views-without-the-parameters-strides", "gradient-meaning", "order", after(drop_strides), "probe-strided"},
      {"gradients-row-by-row", "gradient-layout", "parameter kernel", after(make_contiguous), "probe-strided"},
      {"views-that-overlap", "gradient-meaning", "[8, 5]", after(overlap_views)},
      {"views-of-unused-parameters", "unused-parameters", "zeros", after(zero_unused_views), "probe-unused"},
      in_bfloat16(
          {"autocast-ignored", "gradient-replay", "forward", with([](Parts& parts) { parts.autocast = false; })}),
      in_bfloat16({"autocast-gradients-rounded-to-bfloat16", "gradient-meaning", "bfloat16", with([](Parts& parts) {
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
