// run.json: what a run did, on what, with what result. Schema in results/schema/, glossary in results/README.md.
#pragma once

#include <string>
#include <vector>

#include "harness/report/case.h"
#include "harness/report/protocol.h"
#include "harness/report/stats.h"

namespace dpbench {

struct Derived {
  std::optional<double> samples_per_s, speedup, efficiency, comm_fraction, noise;
};

struct CaseRecord {
  CaseSpec spec;
  std::string status = "interrupted";  // ok | wrong | failed | skipped | interrupted
  std::string reason;                  // why it is not ok
  std::vector<CheckRow> checks;
  std::vector<LaunchRecord> launches;
  std::optional<Summary> step_time_ns;
  Derived derived;
  std::vector<std::string> warnings;
};

struct Report {
  std::string id;      // <UTC time>-<commit>-<machine>: the directory's name
  std::string status = "interrupted";
  Json tool, env, config;  // version, commit, argv; machine and fingerprint; the resolved options
  std::vector<CaseRecord> cases;
};

// The slowest rank's time of every sample of a launch, per step.
std::vector<double> sample_step_ns(const LaunchRecord& launch);
// Fills step_time_ns and derived of every case, the speed-ups from the baseline's row of the same workload and device.
void summarise(Report& report);

Json to_json(const Report& report);
Report report_from_json(const Json& json);

}  // namespace dpbench
