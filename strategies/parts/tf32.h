// While an object constructed with on = true exists, TF32 is enabled: GPUs compute float32 products with a 10-bit
// mantissa. The setting is process-wide.
#pragma once

#include <string>

#include <ATen/Context.h>

#include "workloads/base/error.h"

namespace dpbench {

class Tf32 {
 public:
  Tf32(bool on, at::Device device, const std::string& owner) : on_(on) {
    if (!on_) return;
    if (!device.is_cuda()) throw UsageError(owner + ".tf32=on needs a GPU: a CPU has no TF32");
    matmul_ = at::globalContext().allowTF32CuBLAS();
    conv_ = at::globalContext().allowTF32CuDNN();
    set(true, true);
  }
  ~Tf32() {
    if (on_) set(matmul_, conv_);
  }
  Tf32(const Tf32&) = delete;
  Tf32& operator=(const Tf32&) = delete;

 private:
  static void set(bool matmul, bool conv) {
    at::globalContext().setAllowTF32CuBLAS(matmul);
    at::globalContext().setAllowTF32CuDNN(conv);
  }

  bool on_, matmul_ = false, conv_ = false;
};

}  // namespace dpbench
