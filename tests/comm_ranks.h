// Ranks for tests of collectives: as threads over one store, or as forked processes over a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strategies/comm/backend.h"

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

// As gtest failures.
void expect_ranks_succeed(const Team& team, const Body& body);

// In a rank: throws with both values unless they are equal to the last bit.
void require_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what);

}  // namespace dpbench::testing
