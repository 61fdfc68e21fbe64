#include "strategies/comm/base/comm_work.h"

namespace dpbench {

CommWork::CommWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<at::Tensor> outputs,
                   std::vector<at::Device> devices)
    : Work(rank, type),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(), std::move(devices))) {}

// Marks the work as complete before it completes the future. Completing the future wakes threads, and they may query
// the work's state.
void CommWork::succeed() {
  finish();
  future_->markCompleted(c10::IValue(outputs_));
}

void CommWork::fail(std::exception_ptr error) {
  finish(error);
  future_->setError(error);
}

}  // namespace dpbench
