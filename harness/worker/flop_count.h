// Floating-point operations of what runs meanwhile, in all threads: a multiplication and an addition for every term of
// a matrix product or convolution, forward and backward, by the shapes they are called with. All else counts as
// nothing.
#pragma once

#include <cstdint>

#include <ATen/record_function.h>

namespace dpbench {

class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // Since the constructor; one counter at a time.
  int64_t flop() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace dpbench
