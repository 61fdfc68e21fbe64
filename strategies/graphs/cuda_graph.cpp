// Steps as CUDA graphs. Part of dpbench_cuda alone.
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

// Memory taken while recording belongs to the graph's own pool and is given back with the graph.
class CudaGraph : public StepGraph {
 public:
  explicit CudaGraph(const std::function<void()>& body) {
    c10::cuda::device_synchronize();  // nothing that came before may end up inside
    // Thread-local: what other threads of the process ask of CUDA (a watchdog's queries) must not spoil the recording.
    // The backward pass' thread launches on this stream and is recorded all the same.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      body();
    } catch (...) {
      end_what_failed();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  // The first error is the one to tell.
  void end_what_failed() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception& error) {
      TORCH_WARN("a recording that failed could not be ended: ", error.what());
    }
  }

  at::cuda::CUDAGraph graph_;
};

// The current stream is changed for good, not in each step: the harness' events and copies then lie on it as well, in
// order, and nothing has to wait for another stream. The current device is not: a process may have a recorder for each.
class CudaRecorder : public StepRecorder {
 public:
  explicit CudaRecorder(c10::Device device) : before_(c10::cuda::getCurrentCUDAStream(device.index())) {
    before_.synchronize();
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
  }
  ~CudaRecorder() override {
    try {
      const c10::cuda::CUDAGuard guard(before_.device());
      c10::cuda::device_synchronize();  // what is freed after this may be used on the stream of before
    } catch (const std::exception& error) {
      TORCH_WARN("the GPU ended with an error: ", error.what());
    }
    c10::cuda::setCurrentCUDAStream(before_);
  }
  CudaRecorder(const CudaRecorder&) = delete;
  CudaRecorder& operator=(const CudaRecorder&) = delete;

  // Its collectives are kernels on streams that wait for this one: they become part of the graph. The others' are the
  // host's.
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
    throw UsageError("a step on " + device.str() + " cannot be recorded: CUDA graphs are for GPUs; leave graph off");
  return std::make_unique<CudaRecorder>(device);
}

[[maybe_unused]] const bool offered_graphs = (step_recorder() = make_recorder) != nullptr;

}  // namespace
}  // namespace dpbench
