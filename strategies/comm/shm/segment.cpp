#include "strategies/comm/shm/segment.h"

#include <c10/core/ScalarType.h>

namespace dpbench::shm {
namespace {

struct KindFacts {
  const char* name;
  bool reduces, has_tensor;
};
constexpr KindFacts kind_facts[] = {
    {"nothing", false, false},  {"join", false, false},         {"allreduce", true, true}, {"broadcast", false, true},
    {"allgather", false, true}, {"reduce_scatter", true, true}, {"reduce", true, true},    {"gather", false, true},
    {"scatter", false, true},   {"alltoall", false, true},      {"barrier", false, false}};
constexpr const char* reduction_words[] = {"sum", "avg", "product", "min", "max"};

}  // namespace

std::string describe(const Call& call) {
  const KindFacts& kind = kind_facts[int(call.kind)];
  std::string text = kind.name;
  if (kind.has_tensor)
    text += " of " + std::to_string(call.count) + " " + c10::toString(static_cast<c10::ScalarType>(call.dtype));
  if (kind.reduces) text += std::string(" (") + reduction_words[int(call.reduction)] + ")";
  if (call.root >= 0) text += " with root " + std::to_string(call.root);
  if (call.strides) text += ", strides " + std::to_string(call.strides);
  return text;
}

}  // namespace dpbench::shm
