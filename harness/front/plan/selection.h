// Looks up the names of a Selection (the user's choice of cases) in the catalogue, and its devices on the machine.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/plan/machine.h"

namespace dpbench {

inline constexpr const char* auto_backend = "auto";  // backend name that stands for the most preferred backend

struct Place {
  Device device;
  int world;
  std::string mesh = {};  // axes and their sizes; empty: the ranks are on one axis
  bool has_mesh = false;  // an empty mesh means, if true: the axis dp; if false: the strategy's first axis
};

template <class T>
std::vector<T> without_repeats(const std::vector<T>& values) {
  std::vector<T> once;
  for (const auto& value : values)
    if (std::find(once.begin(), once.end(), value) == once.end()) once.push_back(value);
  return once;
}

// These functions return the entries that the user chose. They throw UsageError for an unknown name (with a suggestion)
// and Unavailable for a name that this build lacks.
std::vector<const StrategyEntry*> chosen_strategies(const Selection& selection, const Catalogue& catalogue);
std::vector<const WorkloadEntry*> chosen_workloads(const Selection& selection, const Catalogue& catalogue);
// Returns the strategy of --reference, or null without that flag.
const StrategyEntry* chosen_reference(const Selection& selection, const Catalogue& catalogue);
std::vector<std::string> chosen_backends(const Selection& selection, const Catalogue& catalogue);

std::string count_of(size_t gpus);  // formats a number of GPUs as "1 GPU" or "2 GPUs"

// Returns the devices and world sizes to run. Throws Unavailable if requested GPUs are missing; the message names the
// flags to use instead.
std::vector<Place> chosen_places(const Selection& selection, const Machine& machine);

}  // namespace dpbench
