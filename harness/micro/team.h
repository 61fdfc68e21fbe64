// A team: the ranks of the micro-benchmarks, one process each. dpbench-micro forks them for the largest world, or an
// outside launcher (torchrun, mpirun, srun) starts them. Every rank runs the same benchmarks with the same numbers of
// iterations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/front/cli/collectives_flags.h"

namespace dpbench::micro {

using CommBackend = c10::intrusive_ptr<c10d::Backend>;

struct Seat {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // this rank's index on its host, and the number of ranks there
};

// The outcome of Team::verify(). It is equal on all ranks, except for the error's text.
struct Verified {
  double wrong = 0;     // number of wrong elements in a call's results, summed over all ranks
  std::string error{};  // error message of a failed call
};

class Team {
 public:
  Team(const Seat& seat, c10::intrusive_ptr<c10d::Store> store, at::Device device);

  // Results of the verified calls, equal on all ranks. failed: a call failed or gave wrong results on any rank.
  // unsupported: a backend lacks the operation, which is no failure. worked: a call succeeded.
  bool failed = false, unsupported = false, worked = false;
  // Rates in GB/s of the slowest links, by world, as measured by slowest_link_gb_s(); 0: no link.
  std::map<int, double> links{};

  int rank() const { return seat_.rank; }
  at::Device device() const { return device_; }  // device of this rank's tensors
  at::Device device_of(int rank) const;          // device of another rank on this host
  c10d::Store& store() const { return *store_; }
  void synchronize() const;  // waits for the work on the current stream of this rank's device
  // Returns the name of the rank's host. If hosts have equal names, such as containers, the number of the host's first
  // rank is added: "node@8".
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  bool share_host(int rank, int other) const { return host(rank) == host(other); }
  // Returns this rank's communication backend of the first `world` ranks. The first call creates the backend and must
  // be made by all these ranks.
  CommBackend backend(const std::string& name, int world);
  // Every rank must call barrier(), sum() and verify(), even one that takes no part in the measured call.
  void barrier() { sum(0); }
  double sum(double value);  // returns the sum of all ranks' values on every rank
  // Makes a call, which returns its number of wrong elements on this rank, and combines the outcomes of all ranks. An
  // exception counts as an error.
  Verified verify(const std::function<double()>& call);

 private:
  Seat seat_;
  at::Device device_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::string> hosts_;  // result of host(), by rank
  CommBackend control_;
  std::map<std::pair<std::string, int>, CommBackend> backends_;
};

// True for the error of an operation that a backend does not implement, by its text in c10d::Backend.
inline bool is_unsupported(std::string_view error) { return error.find(" does not support ") != error.npos; }

// Returns the number of timed iterations. It depends only on the tensor's size, so that all ranks use the same number.
inline int64_t iterations_of(int64_t bytes) {
  return std::clamp<int64_t>((64 << 20) / std::max<int64_t>(bytes, 1), 5, 200);
}

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The following functions register benchmarks of collectives with Google Benchmark.
void add_collectives(Team& team, const CollectivesOptions& asked);
void add_pairs(Team& team, const CollectivesOptions& asked);
void add_arms(Team& team, int world);
// The following functions register benchmarks in which only rank 0 does work.
void add_parts(Team& team);
void add_by_hand(const Team& team);
void add_limit(const Team& team);
void add_calls(const Team& team);

}  // namespace dpbench::micro
