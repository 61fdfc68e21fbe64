// The group of ranks that run a case together: their rendezvous store (c10d) and their c10d process group.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/worker/rank/variables.h"
#include "strategies/api/mesh.h"

namespace dpbench {

class Group {
 public:
  // Joins the process group. `note` is called at the start of each collective, by the backends that support it.
  explicit Group(const Variables& variables, NoteCall note = {});
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return variables_.rank; }
  int world() const { return variables_.world; }
  int local_world() const { return variables_.local_world; }
  // Returns the devices of this process's replicas: `count` devices if it is the only process, otherwise this rank's
  // device.
  std::vector<at::Device> devices(int count, bool oversubscribe) const;

  // Returns the c10d process group, or null for a single process without a backend.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return group_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // Returns the mesh of this shape. The first call with a shape creates its process groups, so every rank must make the
  // same calls in the same order.
  const Mesh& mesh(const MeshShape& shape) const;

  // Blocks until every rank has arrived; a no-op for a single process.
  void barrier() const;
  // Returns rank 0's value on every rank. Use it for decisions based on times or counts, which differ between ranks.
  int64_t agree(int64_t value) const;
  // Replaces `values` by their sum over all ranks; the tensor may be on any device.
  void sum(at::Tensor& values) const;
  // Replaces `values` by their maximum over all ranks; the tensor may be on any device.
  void max(at::Tensor& values) const;
  // True if all ranks share a machine and therefore a clock.
  bool one_host() const { return variables_.local_world == variables_.world; }
  // Copies rank 0's tensors to every rank, in place.
  void broadcast(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const;
  // Returns the texts of all ranks in rank order on rank 0, an empty list on other ranks. Uses the rendezvous store, so
  // texts may have any length.
  std::vector<std::string> gather(const std::string& text) const;

 private:
  void reduce(at::Tensor& values, c10d::ReduceOp::RedOpType op) const;
  Mesh make_mesh(const MeshShape& shape) const;
  // Returns the process group for Mesh::subgroup(). Its first call with these arguments makes the group.
  c10::intrusive_ptr<c10d::ProcessGroup> subgroup(const std::vector<int>& ranks, int number) const;

  Variables variables_;
  c10::intrusive_ptr<c10d::Store> store_;
  BackendSetup setup_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  mutable std::map<std::string, Mesh> meshes_;
  mutable std::map<std::string, c10::intrusive_ptr<c10d::ProcessGroup>> subgroups_;
  // Number of earlier gather() calls. Equal on every rank, so it makes keys in the rendezvous store unique.
  mutable int64_t gathered_ = 0;
};

}  // namespace dpbench
