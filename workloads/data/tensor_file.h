// Named tensors to and from safetensors files.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/data/safetensors_file.h"

namespace dpbench {

struct TensorFile {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata;

  // Undefined when there is none of that name.
  at::Tensor find(const std::string& name) const;
};

// Undefined tensors are left out. Throws FileError when it cannot be written.
void save_tensors(const std::string& path, const TensorFile& file);
// CPU tensors of their own memory. what: the flag that named the file. Throws UsageError for all that is wrong with it.
TensorFile load_tensors(const std::string& path, const std::string& what);

}  // namespace dpbench
