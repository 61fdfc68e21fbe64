# Defines dpbench::torch, the CPU libraries of the LibTorch that scripts/find-torch found or fetched. Sets DPBENCH_TORCH
# to the parent folder of its include/ and lib/, and DPBENCH_TORCH_VERSION to its version.
set(DPBENCH_TORCH "" CACHE PATH "an unpacked libtorch or a Python environment's torch (empty: scripts/find-torch searches for one)")
set(DPBENCH_TORCH_VERSION "" CACHE STRING "LibTorch version for scripts/find-torch (empty: its default)")
if(NOT DPBENCH_TORCH)
  set(DPBENCH_TORCH "$ENV{DPBENCH_TORCH}")
endif()
if(NOT DPBENCH_TORCH_VERSION)
  set(DPBENCH_TORCH_VERSION "$ENV{DPBENCH_TORCH_VERSION}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env "DPBENCH_TORCH=${DPBENCH_TORCH}"
                        "DPBENCH_TORCH_VERSION=${DPBENCH_TORCH_VERSION}" ${CMAKE_SOURCE_DIR}/scripts/find-torch
                OUTPUT_VARIABLE DPBENCH_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "no LibTorch found: see the line above")
endif()

file(STRINGS "${DPBENCH_TORCH}/include/torch/headeronly/version.h" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" version_numbers "${version_lines}")
string(REPLACE ";" "." DPBENCH_TORCH_VERSION "${version_numbers}")
message(STATUS "LibTorch ${DPBENCH_TORCH_VERSION}: ${DPBENCH_TORCH}")

include(TorchTarget)
dpbench_torch_target(${DPBENCH_TORCH})
