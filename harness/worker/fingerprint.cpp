#include "harness/worker/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// FNV-1a, eight bytes at a time.
void mix(uint64_t& hash, const void* data, size_t bytes) {
  constexpr uint64_t prime = 0x100000001b3;
  const auto* at = static_cast<const unsigned char*>(data);
  for (; bytes > 0;) {
    uint64_t word = 0;
    const size_t take = std::min<size_t>(bytes, sizeof word);
    std::memcpy(&word, at, take);
    hash = (hash ^ word) * prime;
    hash ^= hash >> 29;
    at += take;
    bytes -= take;
  }
}

}  // namespace

std::string fingerprint(const NamedTensors& tensors, const std::vector<std::string>& own) {
  const auto is_own = [&](const std::string& name) { return std::find(own.begin(), own.end(), name) != own.end(); };
  uint64_t hash = 0xcbf29ce484222325;
  for (const auto& [name, tensor] : tensors) {
    if (is_own(name) || is_own(name.substr(0, name.rfind('.')))) continue;
    mix(hash, name.data(), name.size());
    if (!tensor.defined()) continue;
    const at::Tensor plain = tensor.detach().cpu().contiguous();
    mix(hash, plain.data_ptr(), plain.nbytes());
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace dpbench
