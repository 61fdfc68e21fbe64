// Kineto's trace of a few steps of this rank, with our phases as annotations.
#pragma once

#include <optional>
#include <string>

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include "strategies/api/phases.h"

namespace dpbench {

class Trace : public PhaseListener {
 public:
  explicit Trace(c10::Device device);  // on from here
  void entered(Phase phase, Time) override;
  void left(Time) override { annotation_.reset(); }
  // Off again; Chrome's JSON.
  void save(const std::string& file);

 private:
  std::optional<at::RecordFunction> annotation_;
};

}  // namespace dpbench
