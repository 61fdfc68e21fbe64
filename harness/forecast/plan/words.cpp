#include "harness/forecast/plan/words.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/forecast/output.h"

namespace dpbench::forecast {
namespace {

using Parts = std::vector<std::pair<double, std::string>>;

std::string percentages(Parts parts, double whole) {
  std::ranges::stable_sort(parts, std::ranges::greater(), [](const auto& one) { return one.first; });
  std::string text;
  for (const auto& [part, name] : parts) {
    const double percent = 100 * part / whole;
    if (percent >= 1) text += (text.empty() ? "" : ", ") + name + " " + text_of_number(percent, "%.0f %%");
  }
  return text;
}

}  // namespace

std::string gigabytes(double bytes) { return text_of_number(bytes * 1e-9, bytes < 1e9 ? "%.3f" : "%.1f"); }

std::string parts_text(const Time& time) {
  return percentages({{time.computing_s, "computing"},
                      {time.optimizer_s, "optimizer"},
                      {time.tensor_s, "sums over tp"},
                      {time.context_s, "exchange over cp"},
                      {time.data_s, "exchange over dp and shard"},
                      {time.bubble_s, "pipeline bubble"}},
                     time.step_s());
}

std::string parts_text(const Memory& memory) {
  return "memory: " + percentages({{memory.parameters, "parameters"},
                                   {memory.gradients, "gradients"},
                                   {memory.state, "optimizer state"},
                                   {memory.activations, "activations"},
                                   {memory.buffers, "buffers"}},
                                  memory.total());
}

}  // namespace dpbench::forecast
