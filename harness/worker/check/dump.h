// What a case's ranks saw, as files that any other framework can compare itself with: safetensors, and an index of
// them.
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

  // A file for every step of this rank. A scenario that is run twice is written once; that of twenty steps, which would
  // be nearly a third of all files, is left out: to compare by, its steps are like those of the others.
  void add(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm, const Evidence& evidence);
  // Rank 0 adds the case's files, those of all ranks, to the directory's index.json. Once, after every rank is done.
  // Makes nothing where nothing was added.
  void finish();

 private:
  std::string directory_;
  const CaseSpec& spec_;
  int rank_;
  Json files_ = Json::array();
};

}  // namespace dpbench
