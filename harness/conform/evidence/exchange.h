// How rank 0 gets to see what every rank saw: over the store, never over the backend that is on trial.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/conform/evidence/evidence.h"

namespace dpbench {

// Collective over the store. Rank 0 gets all, in rank order; the others get an empty list. `key` is used once.
std::vector<Evidence> gather_evidence(c10d::Store& store, const std::string& key, int rank, int world,
                                      const Evidence& mine);

// Collective over the store. Every rank's text, on rank 0, in rank order; the others get an empty list.
std::vector<std::string> gather_texts(c10d::Store& store, const std::string& key, int rank, int world,
                                        const std::string& mine);

// Rank 0's text, or what it decides, on every rank.
std::string broadcast_text(c10d::Store& store, const std::string& key, int rank, const std::string& text);
bool broadcast_decision(c10d::Store& store, const std::string& key, int rank, bool mine);

}  // namespace dpbench
