// Keeps the ranks of a case in lockstep: all make the same calls in the same order, and exchange their results over the
// rendezvous store, never over the backend under test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/conform/evidence/exchange.h"

namespace dpbench {

class Lockstep {
 public:
  // store: has a prefix that is unique to this object; may be null if there is only one rank.
  Lockstep(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks)
      : store_(std::move(store)), rank_(rank), ranks_(ranks) {}

  // Calls compute() on rank 0 and returns its result on every rank.
  std::string from_rank0(const std::function<std::string()>& compute);
  // Sends rank 0's yes or no to every rank and returns it.
  bool agreed(bool mine);
  // Returns all ranks' evidence in rank order on rank 0 and an empty list on the others.
  std::vector<Evidence> gathered(const Evidence& mine);
  // Returns a key of the store for one exchange, the same on every rank.
  std::string next_key(const std::string& purpose) { return purpose + "/" + std::to_string(exchanges_++); }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, ranks_;
  int exchanges_ = 0;
};

}  // namespace dpbench
