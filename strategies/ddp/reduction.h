// c10d::Reducer and what torch's DDP keeps around it: the logger, the hook, the first pass of a static graph, the part
// of a rank that has no rows.
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

// With the reducer's own clock, which it keeps to itself.
class TimedReducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;
  // Between the last gradient of the last backward pass and the end of the last reduction.
  std::chrono::nanoseconds after_computing() const;
  // A recording would have the clock's events in it, and nobody can wait for those.
  void stop_clock() { timer_.reset(); }
};

class Reduction {
 public:
  // Throws where a parameter's count, shape or type differs between ranks. step: for step_in_backward.
  Reduction(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<Parameter>& parameters,
            const Options& options, const SteppingHook::Step& step = {});

  // A pass whose micro-batch is not the step's `last` only adds up gradients on this rank.
  void before_forward(bool last);
  void before_backward(const at::Tensor& output);
  void after_backward();

  // Instead of these three where this rank has no rows: reduces zeros with the others, and takes what comes of it.
  void without_rows_forward() { reducer_->rebuild_buckets(); }
  void without_rows_backward();

  c10d::Reducer& reducer() { return *reducer_; }

  // While phases are on: the end of the backward pass, in which it waited for the last reductions, is communication.
  void charge_waiting(Phases& phases, at::Device device);
  // torch's own figures of the last pass, under our names.
  std::map<std::string, std::vector<double>> figures();

 private:
  void register_hook(const SteppingHook::Step& step);
  void refuse_unused_parameters();
  at::Tensor used_by_anyone();

  const std::vector<Parameter>& parameters_;
  Options options_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool timed_ = false;             // by torch's clock, in every pass
  bool sync_ = true;               // this pass is reduced
  std::atomic<bool> last_ = true;  // and it is the step's last
  int passes_ = 0;                 // that were
  std::shared_ptr<TimedReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace dpbench::ddp
