// Helpers shared by the output of `dpbench plan` and of `dpbench project`.
#pragma once

#include <string>
#include <tuple>

#include "harness/forecast/network.h"
#include "harness/report/base/field.h"

namespace dpbench {

// Returns a number as text, or "-" if it is not finite. format: a printf format for one double.
std::string text_of_number(double number, const char* format);

template <>
struct Table<Link> {
  using L = Link;
  static constexpr const char* name = "link";
  static constexpr std::tuple fields{
      Field{"bytes_per_s", "bytes / s", &L::bytes_per_s, "bandwidth per device and direction", range::above_zero},
      Field{"latency_s", "s", &L::latency_s, "latency of one message", range::not_negative}};
};

template <>
struct Table<Network> {
  using N = Network;
  static constexpr const char* name = "network";
  static constexpr std::tuple fields{
      Field{"intra", "-", &N::intra, "links within a host"}, Field{"inter", "-", &N::inter, "links between hosts"},
      Field{"host_size", "devices", &N::host_size, "devices per host; 0: a single host has all", range::not_negative}};
};

}  // namespace dpbench
