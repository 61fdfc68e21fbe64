# Defines dpbench_options, the compiler options for dpbench's own code. ccache and a fast linker are used if installed.
include(CheckCXXCompilerFlag)
add_library(dpbench_options INTERFACE)
# Warnings are errors only with g++, because warnings differ between compilers and clang is used only for fuzzing.
target_compile_options(dpbench_options INTERFACE -Wall -Wextra -Wpedantic
  $<$<CXX_COMPILER_ID:GNU>:-Werror> $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local> -fno-omit-frame-pointer
  -fPIC)  # programs need -fPIC too, to share the precompiled header with the libraries
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # Switch off warnings that are false positives in libstdc++'s and torch's headers and vary with the compiler version.
  target_compile_options(dpbench_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict
    -Wno-maybe-uninitialized -Wno-free-nonheap-object -Wno-dangling-reference -Wno-dangling-pointer)
endif()
# g++ 14 enables -munroll-only-small-loops and -mvzeroupper at -O2, and rejects a precompiled header built without them.
# So all targets get both options. clang-tidy, whose build has no precompiled headers, does not know them.
foreach(option unroll-only-small-loops vzeroupper)
  check_cxx_compiler_flag(-m${option} DPBENCH_HAS_M_${option})
  if(DPBENCH_HAS_M_${option} AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_compile_options(dpbench_options INTERFACE -m${option})
  endif()
endforeach()
target_include_directories(dpbench_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
if(DPBENCH_SANITIZE)
  target_compile_options(dpbench_options INTERFACE -fsanitize=${DPBENCH_SANITIZE} -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Sanitizer instrumentation causes false warnings in the standard library's headers.
    target_compile_options(dpbench_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(dpbench_options INTERFACE -fsanitize=${DPBENCH_SANITIZE})
endif()

# Unity builds save time: torch's and nlohmann's headers take longer to compile than dpbench's own code. Unity files and
# precompiled headers hide missing includes, which scripts/parts/no-unity finds.
option(CMAKE_UNITY_BUILD "compile several files of a target as one" ON)
set(DPBENCH_TORCH_BATCH 4 CACHE STRING "files per unity file that includes torch's headers")

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
