// The CUDA half lives in a library of its own, loaded only when it is asked for and before any other call of torch.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dpbench {

// Empty when it is loaded, else why it could not be.
std::string load_cuda();

// Of the libraries that are loaded (LibTorch may bring CUDA's runtime without a GPU), by the keys of the report:
// {"cuda_loaded", "13.0"}, {"nccl_loaded", "2.28.9"}.
std::map<std::string, std::string> loaded_versions();
// Where GPUs sit, by CUDA's numbers: bus ids as NVML takes them.
std::vector<std::string> pci_buses(const std::vector<int>& gpus);

}  // namespace dpbench
