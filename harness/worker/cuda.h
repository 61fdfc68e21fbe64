// The CUDA half lives in a library of its own, loaded only when it is asked for and before any other call of torch.
#pragma once

#include <string>

namespace dpbench {

// Empty when it is loaded, else why it could not be.
std::string load_cuda();

}  // namespace dpbench
