// Exchanges evidence between ranks over the store, never over the backend under test.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/conform/evidence/evidence.h"

namespace dpbench {

// Collective over the store. Returns all evidence in rank order on rank 0, an empty list elsewhere. `key` must be
// unique per call.
std::vector<Evidence> gather_evidence(c10d::Store& store, const std::string& key, int rank, int world,
                                      const Evidence& mine);

// Collective over the store. Returns every rank's text in rank order on rank 0, an empty list elsewhere.
std::vector<std::string> gather_texts(c10d::Store& store, const std::string& key, int rank, int world,
                                      const std::string& mine);

// Return rank 0's text or decision on every rank.
std::string broadcast_text(c10d::Store& store, const std::string& key, int rank, const std::string& text);
bool broadcast_decision(c10d::Store& store, const std::string& key, int rank, bool mine);

}  // namespace dpbench
