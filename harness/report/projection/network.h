// What collectives cost on a network, in closed form: latency, bandwidth, and how many messages and bytes go over a
// link.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "workloads/base/names.h"

namespace dpbench {

struct Link {
  double bytes_per_s = 0, latency_s = 0;  // of one device, in one direction; of one message
};

// Devices in hosts: `intra` between those of a host, `inter` between hosts.
struct Network {
  Link intra{}, inter{};
  int host_size = 0;  // devices of a host; 0: all are on one host
  int hosts_of(int world) const { return host_size > 0 ? (world + host_size - 1) / host_size : 1; }
};

// "intra=450GB/s:2us,inter=50GB/s:10us", in any order; inter goes with host_size. Throws UsageError naming the part and
// what a link looks like.
Network parse_network(const std::string& text, int host_size);

enum class Algorithm { ring, tree, hierarchical };
template <>
inline constexpr auto enum_names<Algorithm> = std::to_array<std::string_view>({"ring", "tree", "hierarchical"});

// What one device sends one after another over one link.
struct Terms {
  double messages = 0, bytes = 0;
  Terms operator+(const Terms& other) const { return {messages + other.messages, bytes + other.bytes}; }
  double seconds(const Link& link) const { return messages * link.latency_s + bytes / link.bytes_per_s; }
};

// op: allreduce, reduce_scatter, allgather, broadcast; one of another name costs what an allreduce does. bytes: of the
// whole tensor. On one link, so never hierarchical.
Terms terms_of(const std::string& op, Algorithm algorithm, int world, double bytes);

// On a network. Hierarchical (allreduce alone, else as the ring): reduce-scatter in each host, allreduce of each share
// between hosts by a ring, allgather in each host.
double collective_seconds(const std::string& op, Algorithm algorithm, int world, double bytes, const Network& network);

}  // namespace dpbench
