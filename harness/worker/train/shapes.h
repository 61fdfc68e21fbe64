// What every replica's model really got and gave: for --show-shapes.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench {

struct SeenShape {
  at::Tensor first_id;  // where the model had it: nobody waits for a GPU in the middle of a step
  std::vector<int64_t> input, output;
};

// Replicas are threads: notes come from any of them, in any order.
class ShapeNotes {
 public:
  void add(SeenShape seen);
  // All since the last call, in the order of their rows in `ids`: the order of the replicas.
  std::vector<SeenShape> take(const at::Tensor& ids);

 private:
  std::mutex mutex_;
  std::vector<SeenShape> seen_;
};

// The same workload, whose models note what they see. Both must outlive it.
std::unique_ptr<Workload> noting_workload(const Workload& workload, ShapeNotes& notes);

}  // namespace dpbench
