// Large float32 matrix products on the CPU through oneDNN, which LibTorch bundles for convolutions. Twice as fast where
// LibTorch's BLAS does not use the processor's widest instructions. The summation order and so the bits differ.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// Switches layers called on this thread to oneDNN (or back) for its lifetime.
class OneDnnProducts {
 public:
  explicit OneDnnProducts(bool on);
  ~OneDnnProducts();
  OneDnnProducts(const OneDnnProducts&) = delete;
  OneDnnProducts& operator=(const OneDnnProducts&) = delete;

  // True if oneDNN should compute this product. For a small one, the call overhead outweighs the gain.
  static bool take(const at::Tensor& input, int64_t multiplications);

 private:
  bool before_;
};

// Returns input [n, k] times the transpose of weight [m, k], plus bias if defined. Throws UsageError if this LibTorch
// has no oneDNN.
at::Tensor onednn_product(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace dpbench
