// The safetensors format: 8 bytes little-endian length, a header of JSON that says where each tensor's bytes are, the
// bytes. Nothing in such a file is code, but everything in it may be a lie: what is not exactly the format is refused.
// No torch.
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
  uint64_t begin = 0, end = 0;  // bytes of the data part
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"

  const StoredTensor* find(const std::string& name) const;
};

inline constexpr uint64_t safetensors_prefix = 8;               // bytes of the header's length
inline constexpr uint64_t safetensors_header_most = 100 << 20;  // as the reference implementation

// Bytes of one element; 0 for a name that is no dtype of the format (or one below a byte).
uint64_t safetensors_width(std::string_view dtype);

// header: the JSON text alone; data_bytes: how many bytes follow it. Throws UsageError, in one line beginning with
// `what`.
SafetensorsHeader parse_safetensors(std::string_view header, uint64_t data_bytes, const std::string& what);

// Gives the tensors places without holes, wide elements first, then by name: so equal contents are equal files.
void place_safetensors(SafetensorsHeader& header);
// Prefix and header, padded so that the data begin at a multiple of 8. The tensors must have their places.
std::string format_safetensors(const SafetensorsHeader& header);

}  // namespace dpbench
