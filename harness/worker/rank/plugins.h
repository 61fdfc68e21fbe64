// Loads plug-ins: third-party shared libraries that register strategies, workloads and backends. Loading a plug-in
// executes its code.
#pragma once

#include <string>

namespace dpbench {

// Throws UsageError unless `file` is an absolute path, was built for this dpbench and this LibTorch, and the file and
// its folder are owned and writable only by this user or root.
void load_plugin(const std::string& file);

}  // namespace dpbench
