// The share of a long list of tests that the plain suite runs.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace dpbench {

// Returns one in `parts` of the values, drawn with the seed DPBENCH_CASES (default 1), or all if that is "all".
template <class T>
std::vector<T> drawn(const std::vector<T>& all, int parts) {
  const char* seed = std::getenv("DPBENCH_CASES");
  if (seed && std::string(seed) == "all") return all;
  std::mt19937_64 random(seed ? std::stoull(seed) : 1);
  std::vector<T> some;
  std::ranges::sample(all, std::back_inserter(some), (std::ssize(all) + parts - 1) / parts, random);
  return some;
}

}  // namespace dpbench
