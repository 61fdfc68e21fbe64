#include "harness/micro/ceilings/ceilings.h"

#include <cstring>
#include <exception>
#include <vector>

#include <ATen/ATen.h>

#include "harness/micro/ceilings/tcp.h"
#include "harness/micro/inputs.h"
#include "harness/report/stats/stats.h"

namespace dpbench::micro {
namespace {

void copy_bytes(const Team& team, const at::Tensor& to, const at::Tensor& from) {
  if (team.device().is_cpu()) {
    std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  } else {
    to.copy_(from);
    team.synchronize();
  }
}

at::Tensor new_message(const Team& team, int64_t bytes) {
  return at::zeros(bytes / 4, at::TensorOptions().dtype(at::kFloat).device(team.device()));
}

// Sends the message from `from` to `to`, which answers with a reply.
void round_trip(const Team& team, const RankPair& pair, c10d::Backend& backend, const at::Tensor& message,
                const at::Tensor& reply) {
  std::vector<at::Tensor> there{message}, back{reply};
  if (team.rank() == pair.from) {
    backend.send(there, pair.to, 0)->wait();
    backend.recv(back, pair.to, 0)->wait();
  } else {
    backend.recv(there, pair.from, 0)->wait();
    team.synchronize();  // reply only after the message has arrived
    backend.send(back, pair.from, 0)->wait();
  }
  team.synchronize();
}

// Returns, on rank `from`, the median time in which it copies a message of 16 MiB from its GPU to that of rank `to`,
// which is on the same host; 0 on the other ranks, and if the two ranks have the same device.
double seconds_of_copy_between(const Team& team, int from, int to) {
  if (team.rank() != from || team.device_of(to) == team.device()) return 0;
  const at::Tensor there = new_message(team, most_message).to(team.device_of(to)),
                   here = new_message(team, most_message);
  copy_bytes(team, there, here);
  std::vector<double> seconds;
  for (int64_t i = 0; i < iterations_of(most_message); ++i)
    seconds.push_back(seconds_of([&] { copy_bytes(team, there, here); }));
  return median(seconds);
}

}  // namespace

double copy_gb_s(Team& team, bool member, int members, int64_t bytes) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(team.device());
  const int64_t size = member ? bytes : 0;
  const at::Tensor from = at::full({size}, 1, options), to = at::full({size}, 2, options);
  copy_bytes(team, to, from);
  team.barrier();
  std::vector<double> seconds;
  for (int64_t i = 0; i < iterations_of(bytes); ++i) seconds.push_back(seconds_of([&] { copy_bytes(team, to, from); }));
  const double mean = team.sum(member ? median(seconds) : 0) / members;
  return static_cast<double>(bytes) / mean * 1e-9;
}

double wrong_elements(Team& team, const RankPair& pair) {
  if (!pair.has(team.rank())) return 0;
  const at::Tensor message = new_message(team, pair.bytes);
  const at::Tensor sent = Inputs{.world = pair.world}.of(pair.from, 0, message.numel()).to(team.device());
  if (team.rank() == pair.from) message.copy_(sent);
  round_trip(team, pair, *team.backend(pair.backend, pair.world), message, new_message(team, least_message));
  return message.ne(sent).sum().item<double>();
}

double seconds_of_round_trip(Team& team, const RankPair& pair, int64_t bytes) {
  team.barrier();
  if (!pair.has(team.rank())) return team.sum(0);
  const CommBackend backend = team.backend(pair.backend, pair.world);
  const at::Tensor message = new_message(team, bytes), reply = new_message(team, least_message);
  round_trip(team, pair, *backend, message, reply);
  const int64_t trips = iterations_of(bytes);
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < trips; ++i) round_trip(team, pair, *backend, message, reply);
  });
  return team.sum(team.rank() == pair.from ? seconds / static_cast<double>(trips) : 0);
}

double link_gb_s(Team& team, int from, int to) {
  if (from == to) return 0;
  team.barrier();
  double own = 0;
  try {
    own = team.share_host(from, to) ? seconds_of_copy_between(team, from, to)
                                    : seconds_of_tcp_round_trip(team, from, to, most_message);
  } catch (const std::exception&) {
    // The link cannot be measured. The other ranks wait in sum().
  }
  const double seconds = team.sum(own);
  return seconds > 0 ? static_cast<double>(most_message) / seconds * 1e-9 : 0;
}

double slowest_link_gb_s(Team& team, int world) {
  const auto [slowest, is_new] = team.links.try_emplace(world, 0);
  for (int from = 0; is_new && from < world; ++from) {
    const double rate = link_gb_s(team, from, (from + 1) % world);
    if (rate > 0 && (slowest->second == 0 || rate < slowest->second)) slowest->second = rate;
  }
  return slowest->second;
}

}  // namespace dpbench::micro
