# Target `programs`: all programs and libraries that `dpbench` needs at run time.
add_custom_target(programs)
foreach(part dpbench dpbench-worker dpbench-micro dpbench_python dpbench_cuda)
  if(TARGET ${part})
    add_dependencies(programs ${part})
  endif()
endforeach()

# Target `gpu-programs`: the programs that scripts/gpu-check runs, as far as this machine can build them.
add_custom_target(gpu-programs DEPENDS programs)
if(TARGET faulty)  # plug-in whose strategies inject faults
  add_dependencies(gpu-programs faulty)
endif()
