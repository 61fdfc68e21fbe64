// Chooses a share of a long list of tests, so that a usual test run is short. Each day has another share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace dpbench {

// Divides the values into n shares, and returns the share of the day. n is `parts`, or the number of values if that is
// less. Days 0 to n - 1 have each share once, and so have the next n days, in another order: otherwise the sanitizers,
// which run on every fourth day, could always get the same share.
template <class T>
std::vector<T> share_of_day(const std::vector<T>& all, int parts, uint64_t day) {
  const size_t count = std::clamp<size_t>(all.size(), 1, static_cast<size_t>(parts));
  std::vector<T> some;
  for (size_t i = (day + day / count) % count; i < all.size(); i += count) some.push_back(all[i]);
  return some;
}

// Returns the share of the day DPBENCH_CASES (default 1) + `shift`, or all values if DPBENCH_CASES is "all".
template <class T>
std::vector<T> drawn(const std::vector<T>& all, int parts, uint64_t shift = 0) {
  const char* day = std::getenv("DPBENCH_CASES");
  if (day && std::string(day) == "all") return all;
  return share_of_day(all, parts, (day ? std::stoull(day) : 1) + shift);
}

// Groups the values by their key and returns the share of each group, so at least one value of every key.
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
