// Computes large float32 matrix products on the CPU with oneDNN, which LibTorch bundles for convolutions. They are
// twice as fast if LibTorch's BLAS does not use the processor's widest instructions. The results differ in their last
// bits, because the order of summation differs.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// While an object of this class exists, linear layers that are called on its thread compute large float32 products with
// oneDNN if `on` is true, and without it if `on` is false.
class OneDnnProducts {
 public:
  explicit OneDnnProducts(bool on);
  ~OneDnnProducts();
  OneDnnProducts(const OneDnnProducts&) = delete;
  OneDnnProducts& operator=(const OneDnnProducts&) = delete;

  static bool on();
  // Returns true if oneDNN should compute a product: OneDnnProducts is on in this thread, the product is in float32,
  // and it has many multiplications. Small products are faster without oneDNN, which has a higher cost per call.
  static bool take(const at::Tensor& input, int64_t multiplications);

 private:
  bool before_;
};

// Returns input [n, k] times the transpose of weight [m, k], plus the bias if it is defined. Throws UsageError if this
// LibTorch has no oneDNN.
at::Tensor onednn_product(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace dpbench
