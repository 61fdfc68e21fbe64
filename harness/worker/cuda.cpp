#include "harness/worker/cuda.h"

#include <dlfcn.h>

namespace dpbench {

std::string load_cuda() {
#ifdef DPBENCH_CUDA_LIBRARY
  if (dlopen(DPBENCH_CUDA_LIBRARY, RTLD_NOW | RTLD_GLOBAL)) return "";
  return std::string("its library cannot be loaded: ") + dlerror();
#else
  return "dpbench was built without a CUDA toolkit and NCCL";
#endif
}

}  // namespace dpbench
