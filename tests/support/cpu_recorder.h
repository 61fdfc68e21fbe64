// CpuRecorder stands in for the GPU step recorder (CUDA graphs): a replay runs the recorded function again on the CPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "strategies/graphs/step_graph.h"

namespace dpbench {

struct RecorderCounts {
  int recordings = 0, replays = 0;
  bool replaying = false;
  // Resets .grad of the parameters after a replay, because a replay on a GPU does not set .grad.
  std::function<void()> forget_gradients = [] {};
};

class CpuRecorder : public StepRecorder {
 public:
  explicit CpuRecorder(RecorderCounts& counts, bool takes_backends = true)
      : counts_(counts), takes_backends_(takes_backends) {}
  bool takes_backend(const std::string&) const override { return takes_backends_; }
  std::unique_ptr<StepGraph> record(const std::function<void()>& body) override {
    ++counts_.recordings;
    return std::make_unique<Rerun>(body, counts_);
  }

 private:
  class Rerun : public StepGraph {
   public:
    Rerun(std::function<void()> body, RecorderCounts& counts) : body_(std::move(body)), counts_(counts) {}
    void replay() override {
      ++counts_.replays;
      counts_.replaying = true;
      body_();
      counts_.replaying = false;
      counts_.forget_gradients();
    }

   private:
    std::function<void()> body_;
    RecorderCounts& counts_;
  };

  RecorderCounts& counts_;
  bool takes_backends_;
};

// Returns the numbers of recordings and replays by this thread. Each rank is a thread, so each rank has its own
// numbers.
inline RecorderCounts& counts_of_this_rank() {
  static thread_local RecorderCounts counts;
  return counts;
}

// As long as an object of this class exists, strategies get a CpuRecorder instead of the GPU step recorder.
class CpuRecorders {
 public:
  explicit CpuRecorders(MakeStepRecorder make = [](c10::Device) -> std::unique_ptr<StepRecorder> {
    return std::make_unique<CpuRecorder>(counts_of_this_rank());
  })
      : before_(std::exchange(step_recorder(), make)) {}
  ~CpuRecorders() { step_recorder() = before_; }
  CpuRecorders(const CpuRecorders&) = delete;
  CpuRecorders& operator=(const CpuRecorders&) = delete;

 private:
  MakeStepRecorder before_;
};

}  // namespace dpbench
