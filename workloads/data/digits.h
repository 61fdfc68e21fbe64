// Base class of the MNIST workloads: samples (from --data, or synthetic digits), pixel conversion, and the loss over
// ten classes.
#pragma once

#include "workloads/api/workload.h"
#include "workloads/data/image_set.h"
#include "workloads/data/pixels.h"

namespace dpbench {

inline constexpr int64_t digit_classes = 10;

// Returns a batch with images [ids, 1, 28, 28] in float32 and labels [ids] in int64.
Batch images_to_batch(const ImageSet& set, const at::Tensor& ids, PixelRange range);

class DigitsWorkload : public Workload {
 public:
  DigitsWorkload(const WorkloadOptions& options, PixelRange range);

  int64_t samples() const override { return train_.images(); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override;
  Batch batch(const at::Tensor& ids) const override { return images_to_batch(train_, ids, range_); }
  void prepare(const at::Tensor& ids) const override;
  int64_t test_samples() const override { return test_.images(); }
  Batch test_batch(const at::Tensor& ids) const override { return images_to_batch(test_, ids, range_); }

 private:
  ImageSet train_, test_;
  PixelRange range_;
};

}  // namespace dpbench
