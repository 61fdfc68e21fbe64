// Records the input and output shapes of every replica's model, for `dpbench train --show-shapes`.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "workloads/api/workload.h"

namespace dpbench {

struct ModelShapes {
  // Id of the first sample of the batch. It is a tensor on the model's device, because reading its value during the
  // step would wait for the GPU.
  at::Tensor first_id;
  std::vector<int64_t> input, output;
};

// Collects the shapes recorded by all replicas. Thread-safe, because replicas are threads and add their shapes in any
// order.
class ShapeLog {
 public:
  void add(ModelShapes seen);
  // Returns the collected shapes and clears the log. They are sorted by the position of each replica's first sample in
  // `ids`, the samples of the step, which gives the order of the replicas.
  std::vector<ModelShapes> take(const at::Tensor& ids);

 private:
  std::mutex mutex_;
  std::vector<ModelShapes> seen_;
};

// Returns a workload that makes the same models as `workload`, except that they write their shapes to `log`. `workload`
// and `log` must outlive it.
std::unique_ptr<Workload> shape_recording_workload(const Workload& workload, ShapeLog& log);

}  // namespace dpbench
