// What a plug-in must have been built for. Every file that includes strategy.h, workload.h or backend.h carries the mark.
#pragma once

#include <torch/headeronly/version.h>

#define DPBENCH_TEXT_(x) #x
#define DPBENCH_TEXT(x) DPBENCH_TEXT_(x)

namespace dpbench {

inline constexpr char plugin_abi_mark[] = "dpbench-plugin-abi ";
// The interfaces' own number first: it grows with every change that an old plug-in would not survive.
extern "C" [[gnu::weak, gnu::used, gnu::visibility("default")]] const char plugin_abi[] =
    "dpbench-plugin-abi " "1 libtorch " DPBENCH_TEXT(TORCH_VERSION_MAJOR) "." DPBENCH_TEXT(TORCH_VERSION_MINOR);

}  // namespace dpbench
