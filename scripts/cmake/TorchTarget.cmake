# Defines dpbench::torch for the CPU libraries of the LibTorch in FOLDER. Used by dpbench's build and by find_package(dpbench).
# find_package(Torch) would require a CUDA toolkit if LibTorch comes from a CUDA wheel.
function(dpbench_torch_target folder)
  add_library(dpbench::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(dpbench::torch INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  target_compile_definitions(dpbench::torch INTERFACE USE_C10D_GLOO)
  target_link_libraries(dpbench::torch INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  # The CPU library of a CUDA wheel needs CUDA libraries, which it finds through its own run path.
  target_link_options(dpbench::torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()
