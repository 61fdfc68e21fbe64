// The C++ side of a strategy written in Python: each method calls Python.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"
#include "strategies/python/call.h"

namespace dpbench::python {

class PythonStrategy : public Strategy {
 public:
  PythonStrategy(const Setup& setup, const StrategyInfo& info);
  ~PythonStrategy() override;

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override;
  at::Tensor forward(const Batch& mine) override;
  void finish() override;
  NamedTensors parameters() override;
  NamedTensors gradients() override;
  NamedTensors buffers() override;
  NamedTensors state() override;
  KeptTensors kept_tensors() override;
  void load(const Snapshot& snapshot) override;

  const Setup& setup() const { return setup_; }
  const std::string& name() const { return name_; }
  // The values of the strategy's parameters (Params), each as the text "name=value".
  const std::vector<std::string>& param_values() const { return param_values_; }
  // Returns the name under which Python finds the process group of a mesh axis; for axis "", the group of all ranks.
  // Empty if there is no group.
  std::string group_name(const std::string& axis) const;
  // Makes a process group of these ranks. Returns the name under which Python finds it.
  std::string new_group(const std::vector<int64_t>& ranks);

 private:
  void leave() noexcept;

  Setup setup_;
  std::string name_;
  std::vector<std::string> param_values_;
  std::vector<std::string> registered_groups_;
  std::map<std::vector<int>, int> made_of_ranks_;  // number of groups that new_group() has made of the same ranks
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> new_groups_;
  int64_t id_;
};

// Returns the strategy with this number. Throws if it no longer exists.
PythonStrategy& strategy_of(int64_t id);

}  // namespace dpbench::python
