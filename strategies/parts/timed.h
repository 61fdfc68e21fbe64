// A wrapper for collective calls: charges their time to the communication phase and names the operation in their
// errors.
#pragma once

#include <string>

#include "strategies/api/parts/collectives.h"
#include "strategies/api/phases.h"
#include "strategies/parts/naming_errors.h"

namespace dpbench {

// what: the operation's name for error messages. phases: null if the time is not measured.
inline Around timed(Phases* phases, const std::string& what) {
  return [phases, what](const std::function<at::Tensor()>& call) {
    return naming_errors([&] { return what; },
                         [&] {
                           const auto from = Phases::Clock::now();
                           at::Tensor result = call();
                           if (phases) phases->move(Phase::communication, from, Phases::Clock::now());
                           return result;
                         });
  };
}

}  // namespace dpbench
