// Draws a random share of a long list of tests, so that a usual test run is short. With DPBENCH_CASES=all, every test
// is drawn.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace dpbench {

// Returns one in `parts` of the values, drawn with the seed DPBENCH_CASES (default 1) + `shift`, or all if
// DPBENCH_CASES is "all".
template <class T>
std::vector<T> drawn(const std::vector<T>& all, int parts, uint64_t shift = 0) {
  const char* seed = std::getenv("DPBENCH_CASES");
  if (seed && std::string(seed) == "all") return all;
  std::mt19937_64 random((seed ? std::stoull(seed) : 1) + shift);
  std::vector<T> some;
  std::ranges::sample(all, std::back_inserter(some), (std::ssize(all) + parts - 1) / parts, random);
  return some;
}

// Groups the values by their key and draws a share of each group as drawn() does, so at least one value of every key.
template <class T, class KeyOf>
std::vector<T> drawn_of_each(const std::vector<T>& all, int parts, const KeyOf& key_of) {
  std::map<std::decay_t<std::invoke_result_t<KeyOf, const T&>>, std::vector<T>> groups;
  for (const T& one : all) groups[std::invoke(key_of, one)].push_back(one);
  std::vector<T> some;
  uint64_t number = 0;
  for (const auto& [key, group] : groups) std::ranges::copy(drawn(group, parts, number++), std::back_inserter(some));
  return some;
}

}  // namespace dpbench
