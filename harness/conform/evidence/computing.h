// Marks threads that compute the expected result of a check, so that a long computation does not look like a hang.
#pragma once

#include <cstdint>

namespace dpbench {

// While an object of this class exists, its thread is marked: it computes and does not wait for other ranks.
class Computing {
 public:
  Computing();
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

  // Returns the CPU time that all marked threads have spent so far while marked.
  static int64_t cpu_ns();
};

}  // namespace dpbench
