// Loads dpbench's CUDA library and queries versions and GPUs. dpbench's CUDA code is in a separate shared library,
// loaded only in the ranks of GPU cases and for the catalogue.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dpbench {

// Loads dpbench's CUDA library. Returns an empty string on success, otherwise the reason for the failure.
std::string load_cuda();

// Returns the versions of the loaded CUDA and NCCL libraries by their keys in the report, e.g. {"cuda_loaded", "13.0"},
// {"nccl_loaded", "2.28.9"}. LibTorch may load the CUDA runtime even without a GPU.
std::map<std::string, std::string> loaded_versions();
// Returns the PCI bus ids, in CUDA's form, of the GPUs with these CUDA indices; omits GPUs without a known id.
std::vector<std::string> pci_buses(const std::vector<int>& gpus);

}  // namespace dpbench
