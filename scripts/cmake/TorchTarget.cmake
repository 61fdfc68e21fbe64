# Defines dpbench::torch for the CPU libraries of the LibTorch in FOLDER. dpbench's build and find_package(dpbench) use
# this file instead of find_package(Torch), which would require a CUDA toolkit if LibTorch comes from a CUDA wheel.
function(dpbench_torch_target folder)
  add_library(dpbench::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(dpbench::torch INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  target_compile_definitions(dpbench::torch INTERFACE USE_C10D_GLOO)
  target_link_libraries(dpbench::torch INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  # A CUDA wheel's libtorch_cpu needs CUDA libraries, which it finds through its own run path, so the linker must not
  # look for them.
  target_link_options(dpbench::torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()
