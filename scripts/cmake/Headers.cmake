# Targets `api-headers` (plug-in headers) and `headers` (all other headers): compile each header alone to find missing
# includes.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} workloads/*.h strategies/*.h harness/*.h
  tests/support/*.h tests/ranks/*.h)
list(FILTER headers EXCLUDE REGEX "_shim/")  # headers in _shim/ folders replace third-party headers and are not checked
if(NOT TARGET dpbench-micro)
  list(FILTER headers EXCLUDE REGEX "^harness/micro/")
endif()
set(api_headers ${headers})
list(FILTER api_headers INCLUDE REGEX "^(workloads/(api|base)|strategies/api)/")
list(REMOVE_ITEM headers ${api_headers})
foreach(target api-headers headers)
  set(sources "")
  string(REPLACE "-" "_" list ${target})
  foreach(header ${${list}})
    set(source ${CMAKE_BINARY_DIR}/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS OFF UNITY_BUILD OFF)
  target_compile_options(${target} PRIVATE -O0)
  target_link_libraries(${target} PRIVATE dpbench_core dpbench_front dpbench_options)
endforeach()
