// Fuzzes the report parser. A report that the parser accepts must survive writing and reading unchanged.
#include "harness/report/record/report.h"
#include "harness/report/figures/summarise.h"
#include "tests/fuzz/fuzz.h"

using namespace dpbench;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::accepted([&] {
    const Json json = parse_json(std::string(fuzz::text_of(data, size)), "the text");
    const Report report = report_from_json(json);
    const std::string written = to_json(report).dump();
    fuzz::require(to_json(report_from_json(parse_json(written, "what was written"))).dump() == written);
    Report again = report;
    summarise(again);
  });
  return 0;
}
