// c10d communication hook of the strategy ddp. It reduces gradients in float16, bfloat16 or their own dtype.
#pragma once

#include <optional>

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace dpbench::ddp {

class CompressionHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressionHook(c10::intrusive_ptr<c10d::ProcessGroup> group, std::optional<at::ScalarType> type)
      : CppCommHookInterface(std::move(group)), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;

 private:
  std::optional<at::ScalarType> type_;
};

}  // namespace dpbench::ddp
