// The ranks of this launch: the store they meet in and the process group they reduce over.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/worker/rank/variables.h"
#include "strategies/api/backend.h"

namespace dpbench {

class Group {
 public:
  // note: hears of what is called, where the backend tells.
  explicit Group(const Variables& variables, NoteCall note = {});
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return variables_.rank; }
  int world() const { return variables_.world; }
  int local_world() const { return variables_.local_world; }
  // Where the replicas of a case live: `count` of them for one process, else the one of this rank.
  std::vector<at::Device> devices(int count, bool oversubscribe) const;

  // Null for one process without a backend.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // Returns once every rank has come; a no-op alone.
  void barrier() const;
  // Rank 0's value on every rank: counts and times differ a little between ranks, decisions may not.
  int64_t agree(int64_t value) const;
  // Over all ranks, in place; the tensor may be on any device.
  void sum(at::Tensor& values) const;
  // The largest over all ranks, in place; the tensor may be on any device.
  void most(at::Tensor& values) const;
  // Whether all ranks share a machine, and so a clock.
  bool one_host() const { return variables_.local_world == variables_.world; }
  // Rank 0's values into the tensors of every rank.
  void broadcast(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const;
  // Every rank's text, in rank order, on rank 0; nothing elsewhere. Over the store: any length.
  std::vector<std::string> gather(const std::string& text) const;

 private:
  void reduce(at::Tensor& values, c10d::ReduceOp::RedOpType op) const;

  Variables variables_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  mutable int64_t gathered_ = 0;  // the same on every rank: each call has keys of its own
};

}  // namespace dpbench
