// Records training steps as CUDA graphs. Part of the library dpbench_cuda only.
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "strategies/graphs/step_graph.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// A recorded CUDA graph. Memory allocated while recording belongs to the graph's private pool and is freed with the
// graph.
class CudaGraph : public StepGraph {
 public:
  explicit CudaGraph(const std::function<void()>& body) {
    // Waits until the device has finished earlier work, as torch.cuda.graph() of PyTorch does.
    c10::cuda::device_synchronize();
    // With thread-local capture, CUDA calls of other threads, such as queries of NCCL's watchdog, do not invalidate the
    // capture. Kernels that autograd's backward thread launches on this stream are captured all the same.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      body();
    } catch (...) {
      end_failed_capture();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  // Ends a capture after an exception. Warns instead of throwing, so that the original error is reported.
  void end_failed_capture() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception& error) {
      TORCH_WARN("a failed CUDA graph capture could not be ended: ", error.what());
    }
  }

  at::cuda::CUDAGraph graph_;
};

// While a recorder exists, its CUDA stream is the current stream of its thread. The harness's events and copies then
// use this stream too, and need not wait for another one. The current device stays as it was, because a process may
// have one recorder per device.
class CudaRecorder : public StepRecorder {
 public:
  explicit CudaRecorder(c10::Device device) : before_(c10::cuda::getCurrentCUDAStream(device.index())) {
    before_.synchronize();
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
  }
  ~CudaRecorder() override {
    try {
      const c10::cuda::CUDAGuard guard(before_.device());
      // Waits until the device has finished all work: afterwards the recorder's memory may be reused on the stream that
      // was current before.
      c10::cuda::device_synchronize();
    } catch (const std::exception& error) {
      TORCH_WARN("the GPU ended with an error: ", error.what());
    }
    c10::cuda::setCurrentCUDAStream(before_);
  }
  CudaRecorder(const CudaRecorder&) = delete;
  CudaRecorder& operator=(const CudaRecorder&) = delete;

  // Returns true for NCCL only. Its collectives are kernels on streams that wait for the captured stream, so they are
  // captured too. Other backends run collectives on the host, which a CUDA graph cannot record.
  bool takes_backend(const std::string& name) const override { return name == "nccl"; }
  std::unique_ptr<StepGraph> record(const std::function<void()>& body) override {
    const c10::cuda::CUDAGuard guard(before_.device());
    return std::make_unique<CudaGraph>(body);
  }

 private:
  c10::cuda::CUDAStream before_;
};

std::unique_ptr<StepRecorder> make_recorder(c10::Device device) {
  if (!device.is_cuda())
    throw UsageError("a step on " + device.str() + " cannot be recorded: CUDA graphs need a GPU. Use graph=off.");
  return std::make_unique<CudaRecorder>(device);
}

[[maybe_unused]] const bool registered_graphs = (step_recorder() = make_recorder) != nullptr;

}  // namespace
}  // namespace dpbench
