// Before each collective the ranks tell each other which one they are about to call, and refuse when one of them calls
// another: some backends (Gloo) return success and wrong numbers then. For the verification pass; nothing is timed
// through it.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

class AgreeingBackend : public ForwardingBackend {
 public:
  // run: what this use of the group is called, the same on every rank.
  AgreeingBackend(c10::intrusive_ptr<c10d::Backend> inner, at::Device device, std::string run);

  // Collectives from now on belong to this step.
  void begin_step(int64_t step);
  // This rank will call nothing more: those who still wait for it learn so at once. Does nothing where the ranks have
  // fallen apart before, and throws nothing.
  void finish(const std::string& how);
  // The ranks have called different things, or one of them nothing more: what this rank's calls throw now is an echo of
  // that.
  bool apart() const { return apart_; }

 protected:
  WorkPtr around(Call call) override;

 private:
  void agree(const std::string& mine);
  std::vector<std::string> exchange(const std::string& mine);

  at::Device device_;
  std::string run_;
  int64_t step_ = -1, call_ = 0;
  bool apart_ = false;
};

}  // namespace dpbench
