// Diagnoses the ranks of a case from their heartbeats and latest collectives: the rank for which the others wait, and
// mismatched collectives, which some backends (Gloo, NCCL) do not detect.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/front/launch/rank_group.h"

namespace dpbench {

// State of a rank of a running case, as known from the rank's messages and heartbeat.
struct Rank {
  std::string label = {};  // the rank's number, mesh coordinates and host
  bool ready = false, answered = false, dead = false;
  RankState state = {};
  RankRecord record = {};
  // Digests of the collectives that the rank called in the case; the key identifies the group of ranks that called
  // them. The rank sends the digests at the end of the case.
  std::map<uint64_t, CallDigest> calls = {};
};

// Names a rank in messages: "rank 3", or "the worker" if it is the only one.
std::string name_of(const std::vector<Rank>& ranks, int rank);
std::string place_of(const Rank& rank);  // the rank's progress, e.g. " at step 3" or " in step 1 of scenario even"

// Returns a description of the first mismatch between the ranks' collectives, for example "ranks call different
// collectives (#7): rank 0 allreduce of 12 Float (sum), rank 1 broadcast of 3 Float with root 0". Empty if no mismatch
// is known.
std::string different_calls(const std::vector<Rank>& ranks);

// Compares all ranks' collectives after every rank has finished the case. Returns an error message; empty if they
// match. Some backends compute wrong numbers for mismatched collectives instead of failing.
std::string different_calls_at_end(const std::vector<Rank>& ranks);

struct Hang {
  int culprit = -1;  // the rank for which the others wait; -1: no single rank
  std::string reason = {};
};

// Finds why no rank makes progress. In the reason, the text `note` precedes the list of the ranks' latest collectives.
Hang hang_of(const std::vector<Rank>& ranks, const std::string& note);

}  // namespace dpbench
