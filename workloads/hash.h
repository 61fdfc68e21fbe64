// Counter-based randomness: the same number for the same key wherever and whenever it is asked for. Knows no torch.
#pragma once

#include <cstdint>

namespace dpbench {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection in which every input bit moves every output bit.
inline constexpr uint64_t mix64_added = 0x9e3779b97f4a7c15u, mix64_first = 0xbf58476d1ce4e5b9u,
                          mix64_second = 0x94d049bb133111ebu;
constexpr uint64_t mix64(uint64_t x) {
  x += mix64_added;
  x = (x ^ (x >> 30)) * mix64_first;
  x = (x ^ (x >> 27)) * mix64_second;
  return x ^ (x >> 31);
}

// 32 bits wide, for inner loops. The factors are below 2^31, so that int64 tensors can do the same without overflow.
inline constexpr uint32_t mix32_first = 0x71262edb, mix32_second = 0x60c9e7cf;
constexpr uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * mix32_first;
  x = (x ^ (x >> 15)) * mix32_second;
  return x ^ (x >> 16);
}

}  // namespace dpbench
