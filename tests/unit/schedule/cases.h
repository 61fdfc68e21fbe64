// Enumerates the sizes for which schedules are tested: up to 8 ranks, 4 stages per rank and 32 micro-batches.
#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "strategies/schedule/families/families.h"

namespace dpbench::pipeline {

inline void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

inline std::string text_of(const Request& request) {
  return std::to_string(request.ranks) + " ranks, " + std::to_string(request.chunks) + " chunks, " +
         std::to_string(request.microbatches) + " micro-batches";
}

// Calls `test` for every size that the schedule family supports. Returns the number of calls.
inline int for_each_size(const Family& family, const std::function<void(const Request&)>& test, int most_ranks = 8,
                         int most_microbatches = 32) {
  int count = 0;
  for (int ranks = 1; ranks <= most_ranks; ++ranks)
    for (int chunks = family.least_chunks; chunks <= std::min(family.most_chunks, 4); ++chunks)
      for (int microbatches = 1; microbatches <= most_microbatches; ++microbatches) {
        const Request request{ranks, chunks, microbatches};
        if (!family.refusal(request).empty()) continue;
        test(request);
        ++count;
      }
  return count;
}

}  // namespace dpbench::pipeline
