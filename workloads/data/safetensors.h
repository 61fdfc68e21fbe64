// The safetensors format: 8 bytes of little-endian header length, a JSON header with each tensor's offsets, the data.
// The file is untrusted: any deviation from the format is rejected. No torch dependency.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dpbench {

struct StoredTensor {
  std::string name, dtype;  // dtype: "F32", "I64", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // byte offsets in the data part
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // by offset
  std::map<std::string, std::string> metadata;  // "__metadata__"

  const StoredTensor* find(const std::string& name) const;
};

inline constexpr uint64_t safetensors_prefix = 8;              // bytes of the length field
inline constexpr uint64_t safetensors_max_header = 100 << 20;  // as in the reference implementation

// Returns the bytes per element, or 0 for an unknown dtype or one smaller than a byte.
uint64_t safetensors_width(std::string_view dtype);

// header: the JSON text without the length field; data_bytes: number of bytes after it. Throws UsageError with a
// one-line message that begins with `what`.
SafetensorsHeader parse_safetensors(std::string_view header, uint64_t data_bytes, const std::string& what);

// Assigns contiguous offsets, wide dtypes first, then by name, so that equal contents give equal files.
void place_safetensors(SafetensorsHeader& header);
// Returns length field and header, padded so that the data begin at a multiple of 8. Requires assigned offsets.
std::string format_safetensors(const SafetensorsHeader& header);

}  // namespace dpbench
