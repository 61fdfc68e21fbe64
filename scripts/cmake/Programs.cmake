# `programs`: all that `dpbench` needs to run, built together. What exists is written beside the worker, by the worker.
add_custom_target(programs)
if(TARGET dpbench-worker)
  set(catalogue ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/catalogue.json)
  add_custom_command(OUTPUT ${catalogue}
                     COMMAND dpbench-worker --catalogue > ${catalogue}.partial
                     COMMAND ${CMAKE_COMMAND} -E rename ${catalogue}.partial ${catalogue}
                     DEPENDS dpbench-worker dpbench_core VERBATIM)
  add_custom_target(catalogue ALL DEPENDS ${catalogue})
endif()
foreach(part dpbench dpbench-worker catalogue dpbench_cuda)
  if(TARGET ${part})
    add_dependencies(programs ${part})
  endif()
endforeach()
