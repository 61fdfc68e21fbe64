// The c10d::Work objects that our backends return. The future of a work holds the output tensors, as c10d's Reducer
// requires.
#pragma once

#include <exception>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace dpbench {

class CommWork : public c10d::Work {
 public:
  CommWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<at::Tensor> outputs,
           std::vector<at::Device> devices = {});  // devices that hold the outputs; empty if all outputs are on the CPU

  void succeed();
  void fail(std::exception_ptr error);

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace dpbench
