// Large float32 products on the CPU by oneDNN, which LibTorch brings along for convolutions: where its BLAS leaves the
// widest instructions of a processor unused, in half the time. It adds up in another order, so the bits are others.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// For layers that are called on this thread while it lives.
class OneDnnProducts {
 public:
  explicit OneDnnProducts(bool on);
  ~OneDnnProducts();
  OneDnnProducts(const OneDnnProducts&) = delete;
  OneDnnProducts& operator=(const OneDnnProducts&) = delete;

  // Whether a product of so many multiplications is theirs: calling oneDNN costs what a small one does.
  static bool take(const at::Tensor& input, int64_t multiplications);

 private:
  bool before_;
};

// input [n, k] times the transpose of weight [m, k], and bias, if there is one, added to each row. Throws UsageError
// where this LibTorch has no oneDNN.
at::Tensor onednn_product(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace dpbench
