# How our own code is compiled: warnings are errors, ccache and a fast linker are used when they are there.
include(CheckCXXCompilerFlag)
add_library(dpbench_options INTERFACE)
# Warnings differ between compilers, and clang is there for its fuzzer alone: errors with g++ only.
target_compile_options(dpbench_options INTERFACE -Wall -Wextra -Wpedantic
  $<$<CXX_COMPILER_ID:GNU>:-Werror> $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local> -fno-omit-frame-pointer
  -fPIC)  # of programs too: one precompiled header serves every target
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # What the optimiser takes for a fault inside the library's and torch's own headers, differently in every version.
  target_compile_options(dpbench_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict
    -Wno-maybe-uninitialized -Wno-free-nonheap-object -Wno-dangling-reference -Wno-dangling-pointer)
endif()
# g++ 14 turns these on from -O2 on, and refuses a precompiled header where the optimiser's level differs: on for all.
foreach(option unroll-only-small-loops vzeroupper)
  check_cxx_compiler_flag(-m${option} DPBENCH_HAS_M_${option})
  if(DPBENCH_HAS_M_${option} AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(dpbench_options INTERFACE -m${option})
  endif()
endforeach()
target_include_directories(dpbench_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
if(DPBENCH_SANITIZE)
  target_compile_options(dpbench_options INTERFACE -fsanitize=${DPBENCH_SANITIZE} -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Instrumented code makes g++ see uninitialised members in the standard library's own headers.
    target_compile_options(dpbench_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(dpbench_options INTERFACE -fsanitize=${DPBENCH_SANITIZE})
endif()

# Torch's headers, and nlohmann's, take longer to compile than our files: several files are compiled as one. Missing includes show only
# without this and without precompiled headers, see scripts/parts/no-unity.
option(CMAKE_UNITY_BUILD "compile several files of a target as one" ON)
set(DPBENCH_TORCH_BATCH 4 CACHE STRING "how many, where they include torch's headers")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(FAST_LINKER NAMES ld.mold mold ld.lld)
if(FAST_LINKER)
  get_filename_component(linker_name ${FAST_LINKER} NAME)
  string(REGEX REPLACE "^ld\\." "" linker_name ${linker_name})
  add_link_options(-fuse-ld=${linker_name})
endif()
