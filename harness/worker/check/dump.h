// Writes the tensors of a case's scenarios (the test runs of its checks) as safetensors files with an index, for
// comparison with other frameworks.
#pragma once

#include <optional>
#include <string>

#include "harness/conform/scenario/drive.h"
#include "harness/report/record/case.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

class Dump {
 public:
  Dump(std::string directory, const CaseSpec& spec, int rank);

  // Writes a safetensors file for every step of a scenario (test run) on this rank, unless the strategy threw in it or
  // its files exist. Skips two scenarios. The one of twenty steps (Scenario::learns) would add nearly a third of all
  // files and no new kind of step. In the other, the strategy loads an invented state (Scenario::other_state).
  void add(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm, const Evidence& evidence);
  // Adds the files of all ranks to the directory's index.json; only rank 0 writes. Call it once, after every rank has
  // written its files. A no-op if no file was written.
  void finish();

 private:
  std::string directory_;
  const CaseSpec& spec_;
  int rank_;
  Json files_ = Json::array();
};

}  // namespace dpbench
