# Target `programs`: all programs and libraries that `dpbench` needs at run time.
add_custom_target(programs)
foreach(part dpbench dpbench-worker dpbench_python dpbench_cuda)
  if(TARGET ${part})
    add_dependencies(programs ${part})
  endif()
endforeach()

# Target `gpu-programs`: programs for scripts/gpu-check, including the collectives benchmark if it can be built.
add_custom_target(gpu-programs DEPENDS programs)
if(TARGET dpbench-micro)
  add_dependencies(gpu-programs dpbench-micro)
endif()
