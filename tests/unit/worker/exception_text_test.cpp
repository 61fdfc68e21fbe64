#include "harness/conform/evidence/exception_text.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include <c10/util/Exception.h>

namespace dpbench {
namespace {

bool is_out_of_memory(const char* text) {
  try {
    TORCH_CHECK(false, text);
  } catch (const std::exception& error) {
    return out_of_memory(error);
  }
  return false;
}

TEST(ExceptionText, RecognizesTheOutOfMemoryErrorsOfEachLibrary) {
  for (const char* text :
       {"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "NCCL error in: NCCLUtils.cpp:94, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"})
    EXPECT_TRUE(is_out_of_memory(text)) << text;
  EXPECT_TRUE(out_of_memory(std::bad_alloc()));
}

TEST(ExceptionText, OtherErrorsAreNotOutOfMemory) {
  EXPECT_FALSE(is_out_of_memory("CUDA error: an illegal memory access was encountered"));
  EXPECT_FALSE(is_out_of_memory("NCCL error in: NCCLUtils.cpp:94, unhandled cuda error"));
  EXPECT_FALSE(out_of_memory(std::runtime_error("CUDA error: out of memory"))) << "not thrown by torch";
}

}  // namespace
}  // namespace dpbench
