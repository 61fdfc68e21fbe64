// The safetensors file format: 8 bytes of little-endian header length, a JSON header with each tensor's offsets, then
// the data. Files are untrusted, so any deviation from the format is rejected. Does not depend on torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dpbench {

struct StoredTensor {
  std::string name, dtype;  // dtype is a name such as "F32" or "I64"
  std::vector<int64_t> shape;
  // Positions of the tensor's first byte and of the byte after its last one, counted from the start of the data.
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // the file's tensors, sorted by offset
  std::map<std::string, std::string> metadata;  // the entries of the header's "__metadata__"

  const StoredTensor* find(const std::string& name) const;
};

inline constexpr uint64_t safetensors_prefix = 8;  // size in bytes of the length field at the start of a file
// Largest header that is accepted, in bytes. The safetensors library itself accepts up to 100,000,000.
inline constexpr uint64_t safetensors_max_header = 100 << 20;

// Returns the bytes per element of a dtype; 0 if the dtype is unknown or smaller than a byte.
uint64_t safetensors_width(std::string_view dtype);

// Parses a header. header: its JSON text, without the length field. data_bytes: number of bytes after the header.
// Throws UsageError with a one-line message that begins with `what` if the header is malformed.
SafetensorsHeader parse_safetensors(std::string_view header, uint64_t data_bytes, const std::string& what);

// Gives the tensors consecutive offsets. Wide dtypes come first, and tensors of a dtype are ordered by name, so that
// equal contents give equal files.
void place_safetensors(SafetensorsHeader& header);
// Returns the length field and the header, padded so that the data begin at a multiple of 8 bytes. The tensors must
// have offsets already.
std::string format_safetensors(const SafetensorsHeader& header);

}  // namespace dpbench
