// c10d::Reducer with the logic that torch's DDP adds to it: logger, hook, first pass of a static graph, and the
// reduction of a rank without samples.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "strategies/ddp/options.h"
#include "strategies/ddp/stepping.h"
#include "strategies/parts/optimizer.h"

namespace dpbench::ddp {

// Exposes the Reducer's protected timer.
class TimedReducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;
  // Returns the time from the last gradient of the last backward pass to the end of the last reduction.
  std::chrono::nanoseconds after_computing() const;
  // Call before recording: the timer's events would be captured, and captured events cannot be waited for.
  void stop_clock() { timer_.reset(); }
};

class Reduction {
 public:
  // Throws if the count, shape or dtype of the parameters differs between ranks. step: for step_in_backward.
  Reduction(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<Parameter>& parameters,
            const Options& options, const SteppingHook::Step& step = {});

  // Only the pass of the step's last micro-batch is reduced; earlier ones accumulate gradients on this rank.
  void before_forward(bool last);
  void before_backward(const at::Tensor& output);
  void after_backward();

  // Replace the three calls above on a rank without samples: contributes zeros and stores the reduced gradients.
  void without_rows_forward() { reducer_->rebuild_buckets(); }
  void without_rows_backward();

  c10d::Reducer& reducer() { return *reducer_; }

  // If phases are on, charges the wait for the last reductions at the end of the backward pass to communication.
  void charge_waiting(Phases& phases, at::Device device);
  // Returns torch's own metrics of the last pass, under our names.
  std::map<std::string, std::vector<double>> figures();

 private:
  void register_hook(const SteppingHook::Step& step);
  void refuse_unused_parameters();
  at::Tensor used_on_any_rank();

  const std::vector<Parameter>& parameters_;
  Options options_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool timed_ = false;             // torch's timer runs in every pass
  bool sync_ = true;               // this pass is reduced
  std::atomic<bool> last_ = true;  // this pass is the step's last
  int reduced_passes_ = 0;
  std::shared_ptr<TimedReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace dpbench::ddp
