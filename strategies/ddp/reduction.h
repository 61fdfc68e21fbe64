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
  // Stops the Reducer's timer. Must be called before a step is recorded as a CUDA graph: the graph would capture the
  // timer's events, and the host cannot wait for captured events.
  void stop_clock() { timer_.reset(); }
};

class Reduction {
 public:
  // Throws if the number, sizes or strides of the parameters differ between ranks. step: with ddp.step_in_backward, the
  // function that steps the parameters of a reduced bucket.
  Reduction(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<Parameter>& parameters,
            const Options& options, const SteppingHook::Step& step = {});

  // A rank with samples calls before_forward(), before_backward() and after_backward() in every pass. last: true in the
  // pass of the step's last micro-batch, which is reduced. Earlier passes only accumulate gradients on this rank,
  // except the first two passes of a static graph.
  void before_forward(bool last);
  void before_backward(const at::Tensor& output);
  void after_backward();

  // A rank without samples calls without_rows_forward() and without_rows_backward() in place of the three functions for
  // ranks with samples. It adds zeros to the reductions, and stores the reduced gradients.
  void without_rows_forward() { reducer_->rebuild_buckets(); }
  void without_rows_backward();

  // Charges to the communication phase the time for which the end of the backward pass waited for reductions. Does
  // nothing if phase timing is off.
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
  std::atomic<bool> last_ = true;  // true if the current pass is that of the step's last micro-batch
  int reduced_passes_ = 0;
  std::shared_ptr<TimedReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace dpbench::ddp
