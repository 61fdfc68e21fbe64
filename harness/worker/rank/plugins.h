// A stranger's shared library: its strategies, workloads and backends register themselves when it is loaded. It runs
// code.
#pragma once

#include <string>

namespace dpbench {

// Throws UsageError unless `file` is an absolute path, was built for this dpbench and this LibTorch, and nobody but
// this user and root owns or may write it or its folder.
void load_plugin(const std::string& file);

}  // namespace dpbench
