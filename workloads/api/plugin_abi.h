// What a plug-in must have been built for: the mark that every file including an interface carries.
#pragma once

#include <torch/headeronly/version.h>

#define DPBENCH_TEXT_(x) #x
#define DPBENCH_TEXT(x) DPBENCH_TEXT_(x)
#define DPBENCH_ABI_MARK "dpbench-plugin-abi "

namespace dpbench {

// The interfaces' own number first: it grows with every change that an old plug-in would not survive.
// Headers of this number: 921000d3e11a15d0 (tests/programs/plugin_abi_test.py)
[[gnu::used]] inline const char plugin_abi[] =
    DPBENCH_ABI_MARK "13 libtorch " DPBENCH_TEXT(TORCH_VERSION_MAJOR) "." DPBENCH_TEXT(TORCH_VERSION_MINOR);

}  // namespace dpbench
