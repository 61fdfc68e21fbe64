// The ranks of the micro-benchmarks: one process each, forked once for the largest world; every rank goes through the
// same list with the same numbers of iterations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dpbench::micro {

using CommBackend = c10::intrusive_ptr<c10d::Backend>;

struct MicroAsked {
  std::vector<int> worlds{2};
  std::vector<std::string> backends{};  // none: all that take the device's tensors
  bool cuda = false;
  int64_t least_bytes = 4, most_bytes = 256 << 20, factor = 4;
};

class Team {
 public:
  Team(int rank, int ranks, const std::string& file, at::Device device);

  bool failed = false;  // something was wrong, on all ranks alike

  int rank() const { return rank_; }
  at::Device device() const { return device_; }  // where this rank's tensors are
  // This rank's backend in the world of the first so many ranks, made when first asked for (by all of them).
  CommBackend backend(const std::string& name, int world);
  // All ranks, members or not of the world that is measured.
  void meet() { sum(0); }
  double sum(double mine);  // over all ranks; the same everywhere

 private:
  int rank_, ranks_;
  at::Device device_;
  c10::intrusive_ptr<c10d::Store> store_;
  CommBackend control_;
  std::map<std::pair<std::string, int>, CommBackend> made_;
};

// Each adds its benchmarks to Google Benchmark's list.
void add_collectives(Team& team, const MicroAsked& asked);
void add_arms(Team& team, int world);  // backends and copying in turn
void add_parts(Team& team);            // by rank 0 alone
void add_by_hand(const Team& team);    // likewise
void add_limit(const Team& team);      // likewise
void add_calls(const Team& team);      // likewise

}  // namespace dpbench::micro
