// One measurement from its flags to its exit code, as steps shared by the commands run, check, train, tune and duel.
// Each command overrides the virtual functions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/exit_code.h"
#include "harness/front/run/launch_loop.h"
#include "harness/front/run/prepare.h"
#include "harness/front/run/progress/progress.h"
#include "harness/report/record/save.h"

namespace dpbench {

class Run {
 public:
  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The steps of a measurement, to be called in this order.
  virtual void prepare();  // finds the worker build and the machine's devices
  virtual void plan();     // makes the plan: chooses the cases to run
  bool dry() const { return options_.dry_run; }
  Ending print_plan() const;  // prints the planned cases; the last step of a --dry-run
  // Runs and saves the cases. Throws UsageError if a worker reported a usage error and no case was measured.
  void measure();
  Ending report();

 protected:
  // The report is saved as `document`.json in the run's directory; nothing is saved if `document` is empty. `options`
  // must outlive the run.
  Run(const MeasuringOptions& options, World* world, std::string document)
      : options_(options), world_(world), document_(std::move(document)) {}

  // The parts of a new report that Run::measure() needs. `id` is the report's id, which measure() sets once the run has
  // its directory.
  struct Start {
    std::string& id;
    const Json &tool, &env;
    size_t cases;
    int launches;  // initial number of launches (starts of the worker processes) per case
    std::vector<std::string> warnings;
  };

  // measure() calls these functions, which each command overrides.
  virtual Start begin() = 0;
  virtual LoopEnding run_cases() = 0;
  virtual bool measured() const = 0;  // true if any case has been measured
  // on_start(): called once the run's directory and progress_ exist. after_cases(): called after the last case.
  // on_end(): called at the end with the exit code.
  virtual void on_start() {}
  virtual void after_cases() {}
  virtual void on_end(int) {}
  // report() calls these functions, which each command overrides.
  virtual Json json() const = 0;
  virtual Ending ending() const = 0;
  virtual std::vector<std::string> complaints() const = 0;  // messages for stderr, such as one for each bad case
  virtual std::string output() const = 0;
  virtual bool write_extra_files() { return true; }  // returns false if a file could not be written
  virtual std::string closing_line(bool saved) const;
  virtual std::vector<std::string> hints() const { return {}; }  // hints to print: suggested next commands

  virtual const Plan& shown_plan() const { return prepared_.plan; }
  void save(bool force);
  std::filesystem::path logs() const;
  // Returns the settings of worker processes that keep their logs in `logs`. Shows each line that they print, after
  // `label`.
  WorkerSettings worker_settings(const Prepared& prepared, const std::filesystem::path& logs,
                                 const std::string& label = "");
  Launcher::Say note();  // returns a function that prints messages, but only with -v
  // Returns a reader of the cores' CPU times. It is empty under an outside launcher: the launcher starts several
  // dpbench processes, and each would count the others' ranks as load by other programs.
  ReadCpuTimes cpu_times_reader() const;

  const MeasuringOptions& options_;
  World* const world_;
  Prepared prepared_;
  std::optional<RunDirectory> directory_;
  std::optional<ProgressLine> progress_;
  LoopEnding ended_;

 private:
  void open_directory(const Start& start);

  const std::string document_;
  bool saved_ = true, save_error_shown_ = false;
  double next_save_ = 0;
};

// A measurement whose result is a Report with the plan's cases (run, check, train and tune).
class ReportRun : public Run {
 protected:
  using Run::Run;

  Start begin() override;
  bool measured() const override;
  void after_cases() override;
  Json json() const override { return to_json(report_); }
  Ending ending() const override { return ending_of(report_); }
  std::vector<std::string> complaints() const override;
  // Runs the planned cases launch by launch. `choose` selects the cases of each launch; empty: every launch runs all
  // unfinished cases.
  LoopEnding run_launches(CaseRunner& runner, LaunchLoop::MakeCommand make_command, ReadCpuTimes cpu_times = {},
                          LaunchLoop::Choose choose = {});

  Report report_;
};

// Returns a message for each case that has no valid result.
template <class Record>
std::vector<std::string> bad_cases(const std::vector<Record>& cases) {
  std::vector<std::string> lines;
  for (const auto& record : cases)
    if (record.bad()) lines.push_back(record.spec.id + " " + record.status + ": " + record.reason);
  return lines;
}

}  // namespace dpbench
