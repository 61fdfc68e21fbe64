#include "harness/worker/cuda.h"

#include <dlfcn.h>

namespace dpbench {

std::string load_cuda() {
#ifdef DPBENCH_CUDA_LIBRARY
  return dlopen(DPBENCH_CUDA_LIBRARY, RTLD_NOW | RTLD_GLOBAL) ? "" : dlerror();
#else
  return "dpbench was built without a CUDA toolkit with NCCL";
#endif
}

}  // namespace dpbench
