// Counter-based random numbers (the same key always gives the same number) and FNV-1a hashes. Does not depend on torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace dpbench {

// Hashes 64 bits with the finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection in which every input bit
// affects every output bit.
inline constexpr uint64_t mix64_added = 0x9e3779b97f4a7c15u, mix64_first = 0xbf58476d1ce4e5b9u,
                          mix64_second = 0x94d049bb133111ebu;
constexpr uint64_t mix64(uint64_t x) {
  x += mix64_added;
  x = (x ^ (x >> 30)) * mix64_first;
  x = (x ^ (x >> 27)) * mix64_second;
  return x ^ (x >> 31);
}

// A 32-bit variant of mix64() for inner loops. The factors are below 2^31, so that int64 tensors can compute it without
// overflow.
inline constexpr uint32_t mix32_first = 0x71262edb, mix32_second = 0x60c9e7cf;
constexpr uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * mix32_first;
  x = (x ^ (x >> 15)) * mix32_second;
  return x ^ (x >> 16);
}

// 64-bit FNV-1a hash (Fowler, Noll, Vo) of a text. Pass a previous result as `hash` to continue it.
inline constexpr uint64_t fnv1a_start = 0xcbf29ce484222325u, fnv1a_prime = 0x100000001b3u;
constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = fnv1a_start) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * fnv1a_prime;
  return hash;
}

// FNV-1a hash over 8-byte words, for tensors. Pads the last word with zeros. The shift carries high bits down, which
// the multiplication alone never does.
inline uint64_t fnv1a_words(const void* data, size_t bytes, uint64_t hash = fnv1a_start) {
  const auto* from = static_cast<const unsigned char*>(data);
  const auto mix = [&](size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, from, size);
    hash = (hash ^ word) * fnv1a_prime;
    hash ^= hash >> 29;
    from += size;
  };
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) mix(sizeof(uint64_t));
  if (bytes > 0) mix(bytes);
  return hash;
}

}  // namespace dpbench
