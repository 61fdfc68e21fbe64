# dpbench::torch of the LibTorch in FOLDER: the CPU libraries alone. Used by dpbench's own build and by those who find_package it.
# find_package(Torch) is no use: of a CUDA wheel it demands a CUDA toolkit.
function(dpbench_torch_target folder)
  add_library(dpbench::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(dpbench::torch INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  target_compile_definitions(dpbench::torch INTERFACE USE_C10D_GLOO)
  target_link_libraries(dpbench::torch INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  # The CPU library of a CUDA wheel names CUDA libraries that it finds by its own run path: not ours to resolve.
  target_link_options(dpbench::torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()
