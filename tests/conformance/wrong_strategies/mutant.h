// A wrong strategy, the check that must catch it, and the key term of its verdict.
#pragma once

#include <ostream>
#include <string>

#include "tests/conformance/threads.h"
#include "tests/conformance/wrong_strategies/reference.h"

namespace dpbench::wrong {

struct Mutant {
  std::string name;
  std::string killed_by;
  std::string key_term = {};  // must appear in `likely` or `detail` of that check's row
  std::function<StrategyInfo()> strategy;
  std::string workload = "probe-mlp-sgd";
  int world = 3;
  Wrap wrap = {};
  at::ScalarType dtype = at::kFloat;  // the working dtype
};

// The reference with one part changed.
inline std::function<StrategyInfo()> with(const std::function<void(Parts&)>& change,
                                          Gradient gradient = Gradient::mean_of_means) {
  return [=] {
    Parts parts = right_parts();
    change(parts);
    return strategy_of(std::move(parts), gradient);
  };
}

inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }  // the name that gtest shows

std::vector<Mutant> reduction_mutants();
std::vector<Mutant> step_mutants();
std::vector<Mutant> state_mutants();
std::vector<Mutant> replica_mutants();
std::vector<Mutant> backend_mutants();
std::vector<Mutant> feature_mutants();
std::vector<Mutant> late_mutants();
std::vector<Mutant> view_mutants();
std::vector<Mutant> right_features();  // right, like the equivalents
std::vector<Mutant> equivalents();     // must pass every check; killed_by is empty

}  // namespace dpbench::wrong
