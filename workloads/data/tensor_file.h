// Saves and loads named tensors as safetensors files.
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

  // Returns an undefined tensor if there is none of that name.
  at::Tensor find(const std::string& name) const;
};

// Skips undefined tensors. Throws FileError if the file cannot be written.
void save_tensors(const std::string& path, const TensorFile& file);
// Returns CPU tensors that own their memory. what: the flag that named the file. Throws UsageError if the file is
// missing or malformed.
TensorFile load_tensors(const std::string& path, const std::string& what);

}  // namespace dpbench
