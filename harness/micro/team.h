// A team: the ranks of the micro-benchmarks, one process each, forked once for the largest world. Every rank runs the
// same benchmarks with the same numbers of iterations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dpbench::micro {

using CommBackend = c10::intrusive_ptr<c10d::Backend>;

struct MicroOptions {
  std::vector<int> worlds{2};
  std::vector<std::string> backends{};  // names of backends; empty: all backends that support the device
  bool cuda = false;
  int64_t least_bytes = 4, most_bytes = 256 << 20, factor = 4;
};

class Team {
 public:
  Team(int rank, int ranks, const std::string& file, at::Device device);

  bool failed = false;  // a collective failed or gave wrong results on any rank; equal on all ranks

  int rank() const { return rank_; }
  at::Device device() const { return device_; }  // device of this rank's tensors
  // Returns this rank's communication backend of the first `world` ranks. The first call creates the backend and must
  // be made by all these ranks.
  CommBackend backend(const std::string& name, int world);
  // Every rank must call barrier() and sum(), even one that takes no part in the measured collective.
  void barrier() { sum(0); }
  double sum(double value);  // returns the sum of all ranks' values on every rank

 private:
  int rank_, ranks_;
  at::Device device_;
  c10::intrusive_ptr<c10d::Store> store_;
  CommBackend control_;
  std::map<std::pair<std::string, int>, CommBackend> backends_;
};

// The following functions register benchmarks of collectives with Google Benchmark.
void add_collectives(Team& team, const MicroOptions& asked);
void add_arms(Team& team, int world);
// The following functions register benchmarks in which only rank 0 does work.
void add_parts(Team& team);
void add_by_hand(const Team& team);
void add_limit(const Team& team);
void add_calls(const Team& team);

}  // namespace dpbench::micro
