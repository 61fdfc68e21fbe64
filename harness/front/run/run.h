// One measurement from its flags to its exit code: the steps that run, check, train and duel share. What one of them
// does in its own way is a virtual part.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/exit_code.h"
#include "harness/front/run/launch_loop.h"
#include "harness/front/run/prepare.h"
#include "harness/front/run/progress.h"
#include "harness/report/record/save.h"

namespace dpbench {

class Run {
 public:
  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The steps, in this order.
  virtual void prepare();  // the build, the machine
  virtual void plan();     // the cases
  bool dry() const { return options_.dry_run; }
  Ending print_plan() const;  // --dry-run: in place of what follows
  // Throws UsageError for the user's mistake that a worker found before anything was measured.
  void measure();
  Ending report();

 protected:
  // document: NAME of the NAME.json that is kept in the run's directory; empty: nothing is kept. options: outlive the
  // run.
  Run(const MeasuringOptions& options, World* world, std::string document)
      : options_(options), world_(world), document_(std::move(document)) {}

  // What the steps need of a new report. The id is set when the run has its directory.
  struct Start {
    std::string& id;
    const Json &tool, &env;
    size_t cases;
    int launches;  // of each case
    std::vector<std::string> warnings;
  };

  // Parts of measure().
  virtual Start begin() = 0;
  virtual LoopEnding run_cases() = 0;
  virtual bool measured() const = 0;  // anything at all
  // Parts of report().
  virtual Json json() const = 0;
  virtual Ending ending() const = 0;
  virtual std::vector<std::string> complaints() const = 0;  // what went wrong, case by case
  virtual std::string output() const = 0;
  virtual bool write_more() { return true; }  // false: it could not be written
  virtual std::string closing(bool saved) const;
  virtual std::vector<std::string> hints() const { return {}; }  // what to do next

  virtual const Plan& shown_plan() const { return prepared_.plan; }
  void save(bool force);
  std::filesystem::path logs() const;
  Launcher::Say note();  // with -v

  const MeasuringOptions& options_;
  World* const world_;
  Prepared prepared_;
  std::optional<RunDirectory> directory_;
  std::optional<ProgressLine> progress_;
  LoopEnding ended_;

 private:
  void open_directory(const Start& start);

  const std::string document_;
  bool saved_ = true, complained_ = false;
  double next_save_ = 0;
};

// A run that fills a Report: the plan's cases, one after the other.
class ReportRun : public Run {
 protected:
  using Run::Run;

  Start begin() override;
  bool measured() const override;
  Json json() const override { return to_json(report_); }
  Ending ending() const override { return ending_of(report_); }
  std::vector<std::string> complaints() const override;
  // answer: the event that ends a case well.
  LoopEnding run_launches(Event answer, LaunchLoop::Tell tell, LaunchLoop::Load load = {});

  Report report_;
};

// Lines for cases that must not count as a result.
template <class Record>
std::vector<std::string> bad_cases(const std::vector<Record>& cases) {
  std::vector<std::string> lines;
  for (const auto& record : cases)
    if (record.bad()) lines.push_back(record.spec.id + " " + record.status + ": " + record.reason);
  return lines;
}

}  // namespace dpbench
