// A wrapper for collective calls: charges their time to the communication phase and names the operation in their
// errors.
#pragma once

#include <stdexcept>
#include <string>

#include "strategies/api/parts/collectives.h"
#include "strategies/api/phases.h"

namespace dpbench {

// what: the operation's name for error messages. phases: null if the time is not measured.
inline Around timed(Phases* phases, const std::string& what) {
  return [phases, what](const std::function<at::Tensor()>& call) {
    try {
      const auto from = Phases::Clock::now();
      at::Tensor result = call();
      if (phases) phases->move(Phase::communication, from, Phases::Clock::now());
      return result;
    } catch (const std::exception& error) {
      throw std::runtime_error(what + ": " + error.what());
    }
  };
}

}  // namespace dpbench
