#include "harness/forecast/output.h"

#include <cmath>
#include <cstdio>

namespace dpbench {
namespace {

Json link_json(const Link& link) { return {{"bytes_per_s", link.bytes_per_s}, {"latency_s", link.latency_s}}; }

}  // namespace

std::string text_of_number(double number, const char* format) {
  if (!std::isfinite(number)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

Json to_json(const Network& network) {
  return {{"intra", link_json(network.intra)}, {"inter", link_json(network.inter)}, {"host_size", network.host_size}};
}

}  // namespace dpbench
