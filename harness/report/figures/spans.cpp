#include "harness/report/figures/spans.h"

#include <algorithm>

namespace dpbench {

Spans merged(Spans spans) {
  std::erase_if(spans, [](const Span& span) { return span.until <= span.from; });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  Spans result;
  for (const Span& span : spans)
    if (result.empty() || span.from > result.back().until)
      result.push_back(span);
    else
      result.back().until = std::max(result.back().until, span.until);
  return result;
}

int64_t length(const Spans& spans) {
  int64_t sum = 0;
  for (const Span& span : merged(spans)) sum += span.until - span.from;
  return sum;
}

Spans common(const Spans& a, const Spans& b) {
  const Spans left = merged(a), right = merged(b);
  Spans result;
  for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const Span both{std::max(left[i].from, right[j].from), std::min(left[i].until, right[j].until)};
    if (both.from < both.until) result.push_back(both);
    left[i].until < right[j].until ? ++i : ++j;
  }
  return result;
}

Communication communication_of(const std::vector<EnteredCollective>& collectives, const Spans& blocked) {
  Spans in_progress, before_last_rank;
  for (const EnteredCollective& collective : collectives) {
    in_progress.push_back(collective.span);
    before_last_rank.push_back({collective.span.from, std::min(collective.span.until, collective.last_entered)});
  }
  Communication result;
  result.total_ns = length(in_progress);
  result.exposed_ns = length(common(in_progress, blocked));
  result.hidden_ns = result.total_ns - result.exposed_ns;
  result.waiting_ns = length(common(before_last_rank, blocked));
  return result;
}

}  // namespace dpbench
