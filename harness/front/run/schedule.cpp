#include "harness/front/run/schedule.h"

#include <map>
#include <random>
#include <string>

namespace dpbench {
namespace {

// Shuffles the values. Unlike std::shuffle, gives the same order for the same seed with every standard library.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[random() % left]);
}

// Reorders `members` so that cases are neighbours if they differ only in strategy, parameters, backend, mesh and world.
// Such cases have the same baseline. Sets of neighbours are in the order of their first cases.
std::vector<size_t> side_by_side(const std::vector<CaseSpec>& cases, const std::vector<size_t>& members) {
  std::map<std::string, size_t> places;
  std::vector<std::vector<size_t>> settings;
  for (const size_t index : members) {
    CaseSpec setting = cases[index];
    setting.strategy = setting.backend = setting.mesh = "";
    setting.params.clear();
    setting.world = setting.processes = 1;
    const auto [place, is_new] = places.try_emplace(case_id(setting), settings.size());
    if (is_new) settings.emplace_back();
    settings[place->second].push_back(index);
  }
  std::vector<size_t> order;
  for (const auto& setting : settings) order.insert(order.end(), setting.begin(), setting.end());
  return order;
}

}  // namespace

std::vector<std::vector<size_t>> launch_order(const std::vector<CaseSpec>& cases, const std::vector<size_t>& which,
                                              int launch, uint64_t seed) {
  std::map<ProcessSettings, std::vector<size_t>> groups;
  for (const size_t index : which) groups[cases[index]].push_back(index);
  std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(launch));
  std::vector<std::vector<size_t>> order;
  for (auto& [key, members] : groups) {
    shuffle(members, random);
    order.push_back(side_by_side(cases, members));
  }
  shuffle(order, random);
  return order;
}

}  // namespace dpbench
