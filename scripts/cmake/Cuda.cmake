# dpbench_cuda is built where a CUDA toolkit with NCCL is found; the worker loads it only when a CUDA device is asked for.
find_package(CUDAToolkit QUIET)
find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${DPBENCH_TORCH}/../nvidia/nccl/include)
set(DPBENCH_CUDA OFF)
if(CUDAToolkit_FOUND AND NCCL_INCLUDE AND EXISTS ${DPBENCH_TORCH}/lib/libtorch_cuda.so)
  set(DPBENCH_CUDA ON)
endif()
message(STATUS "CUDA library: ${DPBENCH_CUDA} (toolkit ${CUDAToolkit_VERSION}, nccl.h in ${NCCL_INCLUDE})")
