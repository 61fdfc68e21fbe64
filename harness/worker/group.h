// The ranks of this launch: the store they meet in and the process group they reduce over.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/worker/variables.h"

namespace dpbench {

class Group {
 public:
  explicit Group(const Variables& variables);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return variables_.rank; }
  int world() const { return variables_.world; }
  // Where the replicas of a case live: `count` of them for one process, else the one of this rank.
  std::vector<at::Device> devices(int count, bool oversubscribe) const;

  // Null for one process without a backend.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // Returns once every rank has come; a no-op alone.
  void barrier() const;
  // Rank 0's value on every rank: counts and times differ a little between ranks, decisions may not.
  int64_t agree(int64_t value) const;

 private:
  Variables variables_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace dpbench
