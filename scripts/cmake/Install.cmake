# Installs dpbench (cmake --install): programs, the core library with its headers, catalogue.json (the worker's list of
# strategies, workloads and backends), and the files for find_package(dpbench). The installed tree is relocatable, but
# LibTorch must stay at its path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dpbench)

# The wheel's programs use the torch of the Python environment into which the wheel is installed.
set(torch_of_programs ${DPBENCH_TORCH}/lib)
set(torch_of_python ${DPBENCH_TORCH}/lib)
if(DPBENCH_WHEEL)
  set(torch_of_programs $ORIGIN/../../../torch/lib)
  set(torch_of_python $ORIGIN/../../../../../torch/lib)
endif()

set(optional_dpbench-micro OPTIONAL)  # may be missing; only `dpbench collectives` needs it
foreach(program dpbench dpbench-worker dpbench-micro)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${torch_of_programs}")
    install(TARGETS ${program} ${optional_${program}})
  endif()
endforeach()
install(DIRECTORY scripts/charts DESTINATION ${CMAKE_INSTALL_DATADIR}/dpbench PATTERN __pycache__ EXCLUDE)

# dpbench itself prints its man page and shell completions.
set(pages man share/man/man1/dpbench.1 bash share/bash-completion/completions/dpbench
          zsh share/zsh/site-functions/_dpbench fish share/fish/vendor_completions.d/dpbench.fish)
while(pages)
  list(POP_FRONT pages form file)
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  install(CODE "execute_process(COMMAND \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/dpbench\" help --as ${form}
    OUTPUT_FILE \"${CMAKE_BINARY_DIR}/${file}\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${CMAKE_BINARY_DIR}/${file} DESTINATION ${folder})
endwhile()
if(NOT DPBENCH_TORCH_PARTS)
  return()
endif()

target_compile_features(dpbench_core PUBLIC cxx_std_20)
target_include_directories(dpbench_core PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/dpbench>)
set_target_properties(dpbench_core PROPERTIES EXPORT_NAME core INSTALL_RPATH "$ORIGIN;${torch_of_programs}")
install(TARGETS dpbench_core EXPORT dpbench)
install(EXPORT dpbench NAMESPACE dpbench:: DESTINATION ${package} FILE targets.cmake)
if(TARGET dpbench_cuda)
  set_target_properties(dpbench_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${torch_of_programs}")
  install(TARGETS dpbench_cuda)
endif()
if(TARGET dpbench_python)
  set(python_folder ${CMAKE_INSTALL_LIBEXECDIR}/dpbench/python)
  set_target_properties(dpbench_python PROPERTIES
    INSTALL_RPATH "$ORIGIN/../../../${CMAKE_INSTALL_LIBDIR};${torch_of_python}")
  install(TARGETS dpbench_python LIBRARY DESTINATION ${python_folder})
  install(DIRECTORY strategies/python/dpbench DESTINATION ${python_folder} PATTERN __pycache__ EXCLUDE)
endif()
if(TARGET dpbench-worker)
  install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/catalogue.json DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Installs the headers of the plug-in interface, and the headers of workloads/base that they include. They include each
# other relative to the top folder, so they keep their folders under include/dpbench.
foreach(folder strategies/api workloads/api)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dpbench/${folder} FILES_MATCHING PATTERN "*.h")
endforeach()
foreach(header error kinds mesh_shape names number registry)
  install(FILES workloads/base/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dpbench/workloads/base)
endforeach()
configure_package_config_file(${CMAKE_SOURCE_DIR}/scripts/cmake/dpbench-config.cmake.in
                              ${CMAKE_BINARY_DIR}/dpbench-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/dpbench-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dpbench-config.cmake ${CMAKE_BINARY_DIR}/dpbench-config-version.cmake
              scripts/cmake/TorchTarget.cmake DESTINATION ${package})
