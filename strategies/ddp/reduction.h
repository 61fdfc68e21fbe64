// c10d::Reducer together with the logic that torch's DDP adds to it: logger, communication hook, first pass of a static
// graph, and the reduction of a rank without samples.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "strategies/api/parts/optimizer.h"
#include "strategies/ddp/options.h"
#include "strategies/ddp/stepping.h"

namespace dpbench::ddp {

// A c10d::Reducer that gives access to its protected timer.
class TimedReducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;
  // Returns the time between the last gradient of the latest backward pass and the end of its last reduction.
  std::chrono::nanoseconds after_computing() const;
  // Stops the timer. Must be called before a CUDA graph is recorded: the timer's events would be captured, and captured
  // events cannot be waited for.
  void stop_clock() { timer_.reset(); }
};

class Reduction {
 public:
  // Throws if the number, sizes or strides of the parameters differ between ranks. step: called to update a bucket's
  // parameters if ddp.step_in_backward is on.
  Reduction(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<Parameter>& parameters,
            const Options& options, const SteppingHook::Step& step = {});

  // A rank with samples calls before_forward(), before_backward() and after_backward() in every pass. last: true in the
  // pass of the step's last micro-batch, which is reduced. Earlier passes only accumulate gradients on this rank,
  // except the first two passes of a static graph.
  void before_forward(bool last);
  void before_backward(const at::Tensor& output);
  void after_backward();

  // A rank without samples calls without_rows_forward() and without_rows_backward() instead. It contributes zeros and
  // stores the reduced gradients.
  void without_rows_forward() { reducer_->rebuild_buckets(); }
  void without_rows_backward();

  // Charges the wait for the last reductions, at the end of the backward pass, to the communication phase. A no-op if
  // phase timing is off.
  void charge_waiting(Phases& phases, at::Device device);
  // Returns the metrics of c10d's Logger for the latest pass, under the names that dpbench reports.
  std::map<std::string, std::vector<double>> figures();

 private:
  void register_hook(const SteppingHook::Step& step);
  void refuse_unused_parameters();
  at::Tensor used_on_any_rank();

  const std::vector<Parameter>& parameters_;
  Options options_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool timed_ = false;             // true once torch's timer of the Reducer runs in every pass
  bool sync_ = true;               // true if the gradients of the current pass are reduced
  std::atomic<bool> last_ = true;  // true if the current pass is the step's last
  int reduced_passes_ = 0;
  std::shared_ptr<TimedReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace dpbench::ddp
