// Fuzzes the reader of IDX files (the MNIST format), plain and gzip. The first byte selects the expected number of
// dimensions.
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "workloads/data/idx.h"

using namespace dpbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const fuzz::MemoryFile file(fuzz::text_of(data + 1, size - 1));
  fuzz::accepted([&] {
    IdxFile rows(file.path(), data[0] % 2 ? 3 : 1);
    fuzz::require(rows.bytes() >= 0 && rows.bytes() <= static_cast<int64_t>(size) * 1032);
    std::vector<uint8_t> out(static_cast<size_t>(rows.bytes()));
    rows.read(out);
  });
  return 0;
}
