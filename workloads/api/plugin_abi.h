// The ABI mark: the versions of the plug-in interface and of LibTorch, as text. Every object file that includes a
// header of the interface contains the mark. dpbench refuses a plug-in with a mark that differs from its own.
#pragma once

#include <torch/headeronly/version.h>

#define DPBENCH_TEXT_(x) #x
#define DPBENCH_TEXT(x) DPBENCH_TEXT_(x)
#define DPBENCH_ABI_MARK "dpbench-plugin-abi "

namespace dpbench {

// The number after the mark's first word is the interface version. Raise it with every change that breaks existing
// plug-ins.
// Headers had this hash (tests/programs/plugin_abi_test.py) at the last review of the number: 9b5bc928150d754e
[[gnu::used]] inline const char plugin_abi[] =
    DPBENCH_ABI_MARK "32 libtorch " DPBENCH_TEXT(TORCH_VERSION_MAJOR) "." DPBENCH_TEXT(TORCH_VERSION_MINOR);

}  // namespace dpbench
