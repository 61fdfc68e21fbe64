// Counts the floating-point operations (FLOP) of matrix products, convolutions and attention, forward and backward,
// from their shapes: one multiplication and one addition per term. Other operations are not counted.
#pragma once

#include <cstdint>

#include <ATen/record_function.h>

namespace dpbench {

// Counts the floating-point operations of all threads, or of the calling thread alone, during the object's lifetime.
// At most one object may count all threads at a time. An object that counts its thread must be used by that thread.
class FlopCount {
 public:
  enum class Of { all_threads, this_thread };
  explicit FlopCount(Of of = Of::all_threads);
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // Returns the number of floating-point operations since construction.
  int64_t flop() const;

 private:
  int64_t so_far() const;

  Of of_;
  int64_t before_;
  at::CallbackHandle handle_;
};

}  // namespace dpbench
