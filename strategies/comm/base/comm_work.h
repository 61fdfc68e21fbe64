// A c10d::Work completed by our backends. Its future holds the output tensors, as the Reducer requires.
#pragma once

#include <exception>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace dpbench {

class CommWork : public c10d::Work {
 public:
  CommWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<at::Tensor> outputs,
           std::vector<at::Device> devices = {});  // of outputs that are not on the CPU

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
