// Sends tokens to the ranks that have their experts and the results back (expert parallelism).
#pragma once

#include <string>
#include <vector>

#include "strategies/api/phases.h"
#include "strategies/parts/timed.h"
#include "workloads/api/expert_split.h"

namespace dpbench::experts {

class Exchange : public ExpertSplit {
 public:
  // owner: the strategy's name for error messages. device: the device of the tensors that are passed to collectives.
  // phases: charged with the time of the collectives; may be null.
  Exchange(const Axis& axis, std::string owner, at::Device device, Phases* phases);

  int rank() const override { return axis_.rank; }
  int ranks() const override { return axis_.size; }
  void begin_block(const std::string& name) const override;
  std::vector<std::vector<int64_t>> counts(const std::vector<int64_t>& mine) const override;
  at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                      const std::vector<int64_t>& received) const override;

 protected:
  Around around(const std::string& operation) const;

  Axis axis_;
  std::string owner_;
  at::Device device_;
  Phases* phases_;
  mutable std::string block_;
};

}  // namespace dpbench::experts
