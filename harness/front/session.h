// Carries a plan out: every launch, every case, with retries; what comes back goes into the report, saved as it grows.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/front/launcher.h"
#include "harness/front/options.h"
#include "harness/front/progress.h"
#include "harness/report/other_load.h"
#include "harness/report/report.h"

namespace dpbench {

// Who runs a case: the launcher, or a test's stand-in.
class CaseRunner {
 public:
  virtual ~CaseRunner() = default;
  virtual CaseOutcome run(const CaseSpec& spec, const Json& command) = 0;
  virtual std::vector<std::string> end_group() = 0;
  virtual int pending_signal() = 0;
};

struct SessionEnding {
  int signal = 0;     // the run was interrupted by
  std::string usage;  // a worker found the user's mistake: nothing more was run
};

class Session {
 public:
  using Save = std::function<void(const Report&)>;
  // What the workers are told in a launch, without the case.
  using Command = std::function<Json(int launch)>;
  // What the machine's cores did so far; nothing where that cannot be known.
  using Load = std::function<std::optional<CpuTimes>()>;

  // report.cases: the plan's first, in its order; skipped ones after them.
  Session(const Options& options, Report& report, size_t planned, CaseRunner& runner, ProgressLine& progress,
          Command command, Save save, Load load = {}, int cores = 0);

  SessionEnding run();

 private:
  bool launch(int index, const std::vector<size_t>& which);  // false: stop
  bool run_group(int index, const std::vector<size_t>& members);
  bool run_case(int index, size_t which);
  CaseOutcome watched_attempt(int index, size_t which);
  void say_other_load();
  void say_over(size_t which);
  void say_over_but(const std::vector<size_t>& which);
  CaseOutcome attempt(int index, size_t which);
  bool record(int index, size_t which, CaseOutcome outcome);
  void finish_launches();
  std::vector<size_t> unfinished() const;
  std::vector<size_t> noisy() const;
  std::string result_text(const CaseRecord& record) const;

  const Options& options_;
  Report& report_;
  size_t planned_;
  CaseRunner& runner_;
  ProgressLine& progress_;
  Command command_;
  Save save_;
  Load load_;
  std::vector<OtherLoad> others_;  // of each case
  std::vector<CaseSpec> specs_;
  std::vector<bool> over_;    // failed, or its checks did: not run again
  std::vector<bool> said_;    // its line in the progress is there
  std::string broken_start_;  // why groups like the present one do not start
  SessionEnding ending_;
};

}  // namespace dpbench
