#include "harness/forecast/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "harness/report/text/quantity.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr char link_form[] =
    "a link is NAME=RATE:LATENCY with units, as in intra=450GB/s:2us,inter=50GB/s:10us "
    "(NAME intra or inter; RATE in kB/s, MB/s, GB/s, TB/s, Mbit/s or Gbit/s; LATENCY in ns, us or ms)";

const std::vector<Unit> rates = {{"kB/s", 1e3},  {"MB/s", 1e6},     {"GB/s", 1e9},
                                 {"TB/s", 1e12}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}};
const std::vector<Unit> latencies = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}};

[[noreturn]] void refuse(const std::string& part, const std::string& what) {
  throw UsageError("--link '" + part.substr(0, 80) + "': " + what + "; " + link_form);
}

Link parse_link(const std::string& part, const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(part, "no latency");
  const auto refuse_part = [&](const std::string& why) { refuse(part, why); };
  const Link link{quantity(text.substr(0, colon), rates, "rate", refuse_part),
                  quantity(text.substr(colon + 1), latencies, "latency", refuse_part)};
  if (!(link.bytes_per_s > 0)) refuse(part, "the rate must be above 0");
  if (link.latency_s < 0) refuse(part, "the latency must not be below 0");
  return link;
}

int levels(int n) { return n < 2 ? 0 : static_cast<int>(std::ceil(std::log2(n))); }

// Returns the time of a ring collective. Each step of a ring takes as long as its slowest link.
double ring_seconds(const Terms& terms, int world, const Network& network) {
  if (network.hosts_of(world) < 2) return terms.seconds(network.intra);
  const Link between{network.inter.bytes_per_s * network.host_size, network.inter.latency_s};
  return std::max(terms.seconds(network.intra), terms.seconds(between));
}

// Returns the time of a tree collective, with a tree within each host and a tree across the hosts.
double tree_seconds(const Terms& terms, int world, const Network& network) {
  const int hosts = network.hosts_of(world);
  if (hosts < 2) return terms.seconds(network.intra);
  const double between = terms.messages * levels(hosts) / levels(world);
  const double rate = std::min(network.intra.bytes_per_s, network.inter.bytes_per_s);
  return between * network.inter.latency_s + (terms.messages - between) * network.intra.latency_s + terms.bytes / rate;
}

double hierarchical_seconds(int world, double bytes, const Network& network) {
  const int hosts = network.hosts_of(world);
  if (hosts < 2) return terms_of("allreduce", Algorithm::ring, world, bytes).seconds(network.intra);
  const int inside = network.host_size;
  return 2 * terms_of("allgather", Algorithm::ring, inside, bytes).seconds(network.intra) +
         terms_of("allreduce", Algorithm::ring, hosts, bytes / inside).seconds(network.inter);
}

// Communication pattern of a collective. from_one: one rank sends to all. half_ring: the data passes once around a
// ring, as in a reduce-scatter. allreduce: the ranks reduce the data, then distribute the result.
enum class Pattern { from_one, half_ring, allreduce };

Pattern pattern_of(const std::string& op) {
  static const std::map<std::string, Pattern> patterns = {
      {"broadcast", Pattern::from_one}, {"reduce_scatter", Pattern::half_ring}, {"allgather", Pattern::half_ring}};
  const auto found = patterns.find(op);
  return found == patterns.end() ? Pattern::allreduce : found->second;
}

}  // namespace

double slowdown_of(int ranks, int threads, int cores) {
  return cores > 0 ? std::max(1.0, static_cast<double>(ranks) * threads / cores) : 1;
}

double overlap_of(int ranks, int threads, int cores) {
  return cores > 0 && static_cast<double>(ranks) * threads >= cores ? 0 : 1;
}

Network parse_network(const std::string& text, int host_size, int usual_host) {
  std::map<std::string, std::optional<Link>> links = {{"intra", {}}, {"inter", {}}};
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    from = comma + 1;
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto named = links.find(name);
    if (equals == std::string::npos || named == links.end()) refuse(part, "unknown link '" + name.substr(0, 40) + "'");
    if (named->second) refuse(part, name + " is given twice");
    named->second = parse_link(part, part.substr(equals + 1));
  }
  const auto &intra = links["intra"], &inter = links["inter"];
  if (!intra) refuse(text, "intra is missing");
  if (inter && host_size <= 0) host_size = usual_host;
  if (inter && host_size <= 0)
    throw UsageError("--link has inter, but --hosts is missing. Use --hosts N, with N devices per host");
  if (!inter && host_size > 0)
    throw UsageError("--hosts " + std::to_string(host_size) + ": --link lacks inter; " + link_form);
  return {*intra, inter.value_or(*intra), host_size};
}

Terms terms_of(const std::string& op, Algorithm algorithm, int world, double bytes) {
  if (world < 2) return {};
  const Pattern pattern = pattern_of(op);
  const double n = world, depth = levels(world);
  if (pattern == Pattern::from_one) return {depth, bytes};
  if (pattern == Pattern::half_ring) return {n - 1, (n - 1) / n * bytes};
  if (algorithm == Algorithm::tree) return {2 * depth, 2 * bytes};
  return {2 * (n - 1), 2 * (n - 1) / n * bytes};
}

double collective_seconds(const std::string& op, Algorithm algorithm, int world, double bytes, const Network& network) {
  if (world < 2) return 0;
  if (network.host_size == 1)  // with one device per host, all messages use the links between hosts
    return collective_seconds(op, algorithm, world, bytes, {network.inter, network.inter, 0});
  const Terms terms = terms_of(op, algorithm, world, bytes);
  const Pattern pattern = pattern_of(op);
  if (pattern == Pattern::from_one) return tree_seconds(terms, world, network);
  if (pattern == Pattern::half_ring) return ring_seconds(terms, world, network);
  if (algorithm == Algorithm::hierarchical) return hierarchical_seconds(world, bytes, network);
  return algorithm == Algorithm::tree ? tree_seconds(terms, world, network) : ring_seconds(terms, world, network);
}

Algorithm fastest_algorithm(const std::string& op, int world, double bytes, const Network& network) {
  return std::ranges::min({Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}, {}, [&](Algorithm algorithm) {
    return collective_seconds(op, algorithm, world, bytes, network);
  });
}

bool is_allreduce(const std::string& op) { return pattern_of(op) == Pattern::allreduce; }

}  // namespace dpbench
