# `programs`: all that `dpbench` needs to run, and nothing else.
add_custom_target(programs)
foreach(part dpbench dpbench-worker dpbench_cuda)
  if(TARGET ${part})
    add_dependencies(programs ${part})
  endif()
endforeach()
