// Exchanges evidence (each rank's recorded results) between ranks over the rendezvous store, never over the backend
// under test.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/conform/evidence/evidence.h"

namespace dpbench {

// Returns all ranks' evidence (recorded results) in rank order on rank 0 and an empty list on the others. Every rank
// must call it, with a `key` that is unique per call.
std::vector<Evidence> gather_evidence(c10d::Store& store, const std::string& key, int rank, int world,
                                      const Evidence& mine);

// Returns every rank's text in rank order on rank 0 and an empty list on the others. Every rank must call it, with a
// `key` that is unique per call.
std::vector<std::string> gather_texts(c10d::Store& store, const std::string& key, int rank, int world,
                                      const std::string& mine);

// broadcast_text() and broadcast_decision() return rank 0's argument on every rank.
std::string broadcast_text(c10d::Store& store, const std::string& key, int rank, const std::string& text);
bool broadcast_decision(c10d::Store& store, const std::string& key, int rank, bool mine);

}  // namespace dpbench
