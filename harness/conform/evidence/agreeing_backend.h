// A c10d backend wrapper that compares all ranks' calls before each collective and throws if they differ. Without it,
// some backends (Gloo) return success and wrong numbers for mismatched calls. Used in the conformance suite only, never
// while timing.
#pragma once

#include <string>
#include <vector>

#include "harness/conform/evidence/forwarding_backend.h"

namespace dpbench {

class AgreeingBackend : public ForwardingBackend {
 public:
  // run: the name of this test run for error messages; it must be equal on every rank. names: the global numbers of
  // this group's ranks for error messages; empty: ranks are numbered within the group.
  AgreeingBackend(c10::intrusive_ptr<c10d::Backend> inner, at::Device device, std::string run,
                  std::vector<int> names = {});

  // Attributes all further collectives to this training step in error messages.
  void begin_step(int64_t step);
  // Announces that this rank makes no more calls, so that waiting ranks fail at once. A no-op if the ranks have already
  // diverged. Does not throw.
  void finish(const std::string& how);
  // True if the ranks called different collectives, if a rank has finished, or if the comparison itself failed. Any
  // later error of this rank is only a consequence.
  bool diverged() const { return diverged_; }

 protected:
  WorkPtr around(Call call) override;

 private:
  void agree(const std::string& mine);
  std::vector<std::string> exchange(const std::string& mine);

  at::Device device_;
  std::string run_;
  std::vector<int> names_;
  int64_t step_ = -1, call_ = 0;
  bool diverged_ = false;
};

}  // namespace dpbench
