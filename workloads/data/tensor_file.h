// Saves and loads named tensors as safetensors files.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/data/safetensors_file.h"

namespace dpbench {

struct TensorFile {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata;

  // Returns the tensor of this name; an undefined tensor if there is none.
  at::Tensor find(const std::string& name) const;
};

// Returns the torch dtype of a dtype name that the header parser accepts, such as "F32".
at::ScalarType type_of_stored(const std::string& name);
// Returns the memory of a contiguous CPU tensor.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

// Saves the tensors, except undefined ones. Throws FileError if the file cannot be written.
void save_tensors(const std::string& path, const TensorFile& file);
// Loads a file's tensors; they are on the CPU and own their memory. what: the flag that named the file, for error
// messages. Throws UsageError if the file is missing or malformed.
TensorFile load_tensors(const std::string& path, const std::string& what);

}  // namespace dpbench
