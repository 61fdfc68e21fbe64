// Runs the ranks of a collective test as threads that share a store, or as forked processes that share a file store.
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
  int per_host = 0;  // ranks per host; 0 puts all ranks on one host
  std::chrono::milliseconds timeout{20000};
  std::function<void(BackendSetup&)> adjust = [](BackendSetup&) {};
};

using Body = std::function<void(const c10::intrusive_ptr<c10d::Backend>& backend, int rank)>;

// Runs `body` on every rank. Returns one error per rank, empty if the rank succeeded. The error of a crashed process is
// its signal or exit code.
std::vector<std::string> run_ranks(const Team& team, const Body& body);
// Runs `body` on every rank. `body` gets the rank's setup and makes the backend from it. Returns one error per rank,
// empty if the rank succeeded.
std::vector<std::string> run_setups(const Team& team, const std::function<void(const BackendSetup&)>& body);

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs `body` on every rank and reports each rank's error as a gtest failure.
void expect_ranks_succeed(const Team& team, const Body& body);

// One number per rank, initially 0, in memory that forked ranks share.
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

// Throws unless the tensors have the same shape, dtype and bits (same_bits() in strategies/api/named_tensors.h). The
// error names the number of differing elements, and both values of the first. Ranks, which may be forked processes,
// call this function instead of gtest assertions.
void require_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what);

}  // namespace dpbench::testing
