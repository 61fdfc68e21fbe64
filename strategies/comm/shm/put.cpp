#include "strategies/comm/shm/put.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace dpbench::shm {
namespace {

constexpr size_t kWorthIt = 4096;  // below, the line's way home costs less than memory's latency
constexpr size_t kWord = 16;

}  // namespace

void put(char* to, const char* from, size_t bytes) {
#ifdef __SSE2__
  if (bytes >= kWorthIt && reinterpret_cast<uintptr_t>(to) % kWord == 0) {
    const size_t whole = bytes / kWord * kWord;
    for (size_t i = 0; i < whole; i += kWord) {
      const auto word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), word);
    }
    std::memcpy(to + whole, from + whole, bytes - whole);
    return _mm_sfence();
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace dpbench::shm
