// Records the input and output shapes of every replica's model, for --show-shapes.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench {

struct ModelShapes {
  at::Tensor first_id;  // kept on the model's device: reading it here would synchronize with the GPU
  std::vector<int64_t> input, output;
};

// Thread-safe: replicas are threads and add their shapes in any order.
class ShapeLog {
 public:
  void add(ModelShapes seen);
  // Returns and clears the recorded shapes, ordered by the position of their samples in `ids`, i.e. by replica.
  std::vector<ModelShapes> take(const at::Tensor& ids);

 private:
  std::mutex mutex_;
  std::vector<ModelShapes> seen_;
};

// Wraps a workload so that its models record their shapes. `workload` and `log` must outlive the result.
std::unique_ptr<Workload> shape_recording_workload(const Workload& workload, ShapeLog& log);

}  // namespace dpbench
