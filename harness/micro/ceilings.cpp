#include "harness/micro/ceilings.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

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

bool has_link(const Team& team, const RankPair& pair) {
  return pair.from != pair.to && (team.device().is_cuda() || !team.share_host(pair.from, pair.to));
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

double link_gb_s(Team& team, const std::string& backend, int world) {
  const auto [link, is_new] = team.links.try_emplace({backend, world}, 0);
  for (int from = 0; is_new && from < world; ++from) {
    const RankPair pair{backend, world, from, (from + 1) % world, most_message};
    if (!has_link(team, pair) || !team.verify([&] { return wrong_elements(team, pair); }).error.empty()) continue;
    const double rate = static_cast<double>(pair.bytes) / seconds_of_round_trip(team, pair, pair.bytes) * 1e-9;
    link->second = link->second == 0 ? rate : std::min(link->second, rate);
  }
  return link->second;
}

}  // namespace dpbench::micro
