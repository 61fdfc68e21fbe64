// Declarations that let ProcessGroupGloo.hpp compile: Gloo is compiled into libtorch_cpu, but the wheels lack its
// headers. Our code must not construct these types or access their members.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
