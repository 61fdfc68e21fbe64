// Numbers that the checks draw, such as sizes and samples per rank. They follow from the printed seed.
#pragma once

#include <cstdint>

#include "workloads/base/hash.h"

namespace dpbench {

// Returns a pseudo-random number in [from, to], derived from the seed and from `purpose`, a number that is unique to
// each use.
inline int64_t drawn(uint64_t seed, uint64_t purpose, int64_t from, int64_t to) {
  const uint64_t words[] = {seed, purpose};
  return from + static_cast<int64_t>(fnv1a_words(words, sizeof words) % static_cast<uint64_t>(to - from + 1));
}

}  // namespace dpbench
