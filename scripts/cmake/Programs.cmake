# `programs`: all that `dpbench` needs to run, and nothing else.
add_custom_target(programs)
foreach(part dpbench dpbench-worker dpbench_cuda)
  if(TARGET ${part})
    add_dependencies(programs ${part})
  endif()
endforeach()

# `gpu-programs`: what scripts/gpu-check runs: those, and the collectives' benchmark where it can be built.
add_custom_target(gpu-programs DEPENDS programs)
if(TARGET dpbench-micro)
  add_dependencies(gpu-programs dpbench-micro)
endif()
