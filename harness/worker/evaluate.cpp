#include "harness/worker/evaluate.h"

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr int64_t rows_at_once = 500;

}  // namespace

void require_classes(const Workload& workload, const std::string& name) {
  const int64_t rows = workload.test_samples();
  const bool classes = rows > 0 && [&] {
    const at::Tensor target = workload.test_batch(at::arange(1)).target;
    return target.dim() == 1 && target.scalar_type() == at::kLong;
  }();
  if (!classes)
    throw UsageError("--eval and --target-accuracy need test rows with classes, and " + name +
                     (rows > 0 ? " has no classes" : " has no test rows"));
}

Accuracy evaluate(Strategy& strategy, const Workload& workload, const Group& group, Pulse& pulse) {
  group.broadcast(strategy.buffers());
  const int64_t samples = workload.test_samples();
  int64_t right = 0;
  for (const at::Tensor& ids : at::arange(group.rank(), samples, group.world()).split(rows_at_once)) {
    const Batch batch = workload.test_batch(ids.contiguous());
    right += strategy.forward(batch).argmax(1).cpu().eq(batch.target).sum().item<int64_t>();
    pulse.beat();
  }
  at::Tensor counted = at::tensor({right});
  group.sum(counted);
  return {.right = counted.item<int64_t>(), .rows = samples};
}

}  // namespace dpbench
