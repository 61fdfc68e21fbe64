// The ranks of this launch: their rendezvous store and their process group.
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
  // note: called for every collective, if the backend supports it.
  explicit Group(const Variables& variables, NoteCall note = {});
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return variables_.rank; }
  int world() const { return variables_.world; }
  int local_world() const { return variables_.local_world; }
  // The devices of the replicas: `count` devices in a world of one process, otherwise this rank's device.
  std::vector<at::Device> devices(int count, bool oversubscribe) const;

  // Null for one process without a backend.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // Blocks until every rank has arrived; a no-op for one process.
  void barrier() const;
  // Returns rank 0's value on every rank. Use it for decisions based on times or counts, which differ between ranks.
  int64_t agree(int64_t value) const;
  // Sum over all ranks, in place; the tensor may be on any device.
  void sum(at::Tensor& values) const;
  // Maximum over all ranks, in place; the tensor may be on any device.
  void max(at::Tensor& values) const;
  // True if all ranks share a machine and therefore a clock.
  bool one_host() const { return variables_.local_world == variables_.world; }
  // Copies rank 0's values to every rank, in place.
  void broadcast(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const;
  // Returns every rank's text in rank order on rank 0, an empty list elsewhere. Uses the store, so texts may have any
  // length.
  std::vector<std::string> gather(const std::string& text) const;

 private:
  void reduce(at::Tensor& values, c10d::ReduceOp::RedOpType op) const;

  Variables variables_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  mutable int64_t gathered_ = 0;  // equal on every rank; makes the keys of each gather() unique
};

}  // namespace dpbench
