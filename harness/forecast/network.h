// Closed-form cost model of collectives from the links' latency and bandwidth and the number of messages and bytes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "workloads/base/names.h"

namespace dpbench {

struct Link {
  double bytes_per_s = 0;  // bandwidth per device and direction
  double latency_s = 0;    // latency of one message
};

// A network of two link types: `intra` joins the devices of a host, `inter` joins a device to devices of other hosts.
struct Network {
  Link intra{}, inter{};
  int host_size = 0;  // devices per host; 0: a single host has all devices
  int hosts_of(int world) const { return host_size > 0 ? (world + host_size - 1) / host_size : 1; }
  // True if the devices are on one host or fill all their hosts.
  bool fills_hosts(int world) const { return hosts_of(world) < 2 || world % host_size == 0; }
  // Returns the network with transfers within a host slowed down by a factor, as for ranks that share cores.
  Network slowed_inside(double factor) const {
    return {{intra.bytes_per_s / factor, intra.latency_s}, inter, host_size};
  }
};

// Returns the factor by which ranks compute and copy more slowly because they share cores. cores: 0 if each rank has
// its own cores.
double slowdown_of(int ranks, int threads, int cores);
// Returns the share of a collective that computation may overlap: 0 if the ranks use all cores, because collectives
// then take the cores that compute; else 1.
double overlap_of(int ranks, int threads, int cores);

// Parses a --link text such as "intra=450GB/s:2us,inter=50GB/s:10us", in any order. host_size: devices per host as the
// user gave them, or 0; usual_host then replaces it if the text has `inter`. Throws UsageError for any other text, for
// `inter` if both numbers are 0, and for a given host_size without `inter`.
Network parse_network(const std::string& text, int host_size, int usual_host = 0);

enum class Algorithm { ring, tree, hierarchical };
template <>
inline constexpr auto enum_names<Algorithm> = std::to_array<std::string_view>({"ring", "tree", "hierarchical"});

// The numbers of messages and bytes that one device sends in sequence over one link.
struct Terms {
  double messages = 0, bytes = 0;
  double seconds(const Link& link) const { return messages * link.latency_s + bytes / link.bytes_per_s; }
};

// Returns the messages and bytes of a collective on a single link, where a hierarchical allreduce counts as a ring. op:
// allreduce, reduce_scatter, allgather or broadcast; any other op counts as allreduce. bytes: size of the whole tensor.
Terms terms_of(const std::string& op, Algorithm algorithm, int world, double bytes);

// Returns the time of a collective on a network. `algorithm` is that of an allreduce: broadcast always uses a tree,
// reduce_scatter and allgather a ring. Across hosts, a ring is one of several that run at once, each over the link of
// another device of a host, so their bandwidths add up. A hierarchical allreduce is a reduce-scatter within each host,
// a ring allreduce of each shard between hosts, then an allgather within each host.
double collective_seconds(const std::string& op, Algorithm algorithm, int world, double bytes, const Network& network);
// Returns the algorithm with which this collective is fastest; the ring if others are as fast.
Algorithm fastest_algorithm(const std::string& op, int world, double bytes, const Network& network);
bool is_allreduce(const std::string& op);  // true if the algorithm of an allreduce applies to this operation

}  // namespace dpbench
