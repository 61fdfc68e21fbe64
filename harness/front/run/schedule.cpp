#include "harness/front/run/schedule.h"

#include <map>
#include <random>

namespace dpbench {
namespace {

// Shuffles the values. Unlike std::shuffle, gives the same order for the same seed with every standard library.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[random() % left]);
}

}  // namespace

std::vector<std::vector<size_t>> launch_order(const std::vector<CaseSpec>& cases, const std::vector<size_t>& which,
                                              int launch, uint64_t seed) {
  std::map<GroupKey, std::vector<size_t>> groups;
  for (const size_t index : which) groups[group_key(cases[index])].push_back(index);
  std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(launch));
  std::vector<std::vector<size_t>> order;
  for (auto& [key, members] : groups) {
    shuffle(members, random);
    order.push_back(std::move(members));
  }
  shuffle(order, random);
  return order;
}

}  // namespace dpbench
