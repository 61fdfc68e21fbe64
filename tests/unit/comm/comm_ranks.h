// Ranks for tests of collectives: as threads over one store, or as forked processes over a file.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "strategies/api/backend.h"

namespace dpbench::testing {

enum class As { threads, processes };

struct Team {
  std::string backend;
  As as = As::threads;
  int world = 2;
  int per_host = 0;  // ranks that take each other for neighbours on one host; 0: all
  std::chrono::milliseconds timeout{20000};
  std::function<void(BackendSetup&)> adjust = [](BackendSetup&) {};
};

using Body = std::function<void(const c10::intrusive_ptr<c10d::Backend>& backend, int rank)>;

// What each rank threw, empty where it threw nothing. A process that ended otherwise says so.
std::vector<std::string> run_ranks(const Team& team, const Body& body);

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// As gtest failures.
void expect_ranks_succeed(const Team& team, const Body& body);

// Zeros at first, one for each rank: what forked ranks write to them the others see, and the test.
template <class Number>
class SharedNumbers {
 public:
  SharedNumbers() : at_(mmap(nullptr, sizeof(Numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedNumbers() { munmap(at_, sizeof(Numbers)); }
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;
  std::atomic<Number>& operator[](int rank) const { return static_cast<Numbers*>(at_)->at(static_cast<size_t>(rank)); }

 private:
  using Numbers = std::array<std::atomic<Number>, 8>;
  void* at_;
};

// In a rank: throws with both values unless they are equal to the last bit.
void require_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what);

}  // namespace dpbench::testing
