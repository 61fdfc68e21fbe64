// Messages between two ranks on different hosts. Two ranks connect over Gloo when one of them first has a message for
// the other; other pairs of ranks stay unconnected. Any thread may post messages.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/api/backend.h"
#include "workloads/base/work_queue.h"

namespace dpbench {

class Pairs {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit Pairs(const BackendSetup& setup) : setup_(setup) {}

  WorkPtr send(const at::Tensor& tensor, int to, int tag);
  WorkPtr receive(const at::Tensor& tensor, int from, int tag);
  // After this call, messages to or from a rank that is not connected yet fail. Connected ranks are not affected.
  void abort() { aborted_ = true; }

 private:
  // The connection to one other rank. Messages start in the order of their calls, once both ranks are connected.
  struct Pair {
    c10::intrusive_ptr<c10d::Backend> backend;
    std::exception_ptr failure;  // the error of a failed attempt to connect the two ranks; null if there was none
    WorkQueue queue;
  };
  using Start = std::function<WorkPtr(c10d::Backend& backend)>;
  WorkPtr post(int peer, c10d::OpType type, const std::string& what, Start start);
  c10d::Backend& connected(int peer, Pair& pair) const;
  c10::intrusive_ptr<c10d::Backend> connect(int peer) const;

  BackendSetup setup_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;                            // guards the map pairs_ of connections
  std::map<int, std::unique_ptr<Pair>> pairs_;  // this rank's connections, by the number of the other rank
};

}  // namespace dpbench
