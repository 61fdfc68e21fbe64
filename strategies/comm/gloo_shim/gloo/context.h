// Gloo lies compiled inside libtorch_cpu, but the wheels lack its headers: these are the declarations that
// ProcessGroupGloo.hpp needs in order to be read. Nothing declared here may be constructed or looked into by our code.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
