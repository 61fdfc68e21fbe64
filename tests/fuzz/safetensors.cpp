// Fuzzes the reader of safetensors files. A header that the reader accepts must survive writing and reading.
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "workloads/data/safetensors_file.h"

using namespace dpbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const SafetensorsFile stored(file.path(), "--resume");
    uint64_t bytes = 0;
    for (const StoredTensor& tensor : stored.header().tensors) {
      fuzz::require(tensor.begin <= tensor.end && tensor.end <= size);
      bytes += tensor.end - tensor.begin;
      std::vector<std::byte> room(tensor.end - tensor.begin);
      stored.read(tensor, room);
    }
    const std::string again = format_safetensors(stored.header()).substr(safetensors_prefix);
    const auto read_back = parse_safetensors(again, bytes, "what was written");
    fuzz::require(read_back.tensors.size() == stored.header().tensors.size());
  });
  return 0;
}
