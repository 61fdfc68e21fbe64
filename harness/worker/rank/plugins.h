// Loads plug-ins: third-party shared libraries that register strategies, workloads and backends. Loading a plug-in
// executes its code.
#pragma once

#include <string>

namespace dpbench {

// Loads a plug-in. Throws UsageError unless `file` is an absolute path and was built for this dpbench and this
// LibTorch, and the file and its folder are owned and writable only by this user or root.
void load_plugin(const std::string& file);

}  // namespace dpbench
