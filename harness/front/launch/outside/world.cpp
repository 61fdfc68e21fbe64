#include "harness/front/launch/outside/world.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "harness/front/launch/rank_group.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/environment.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr double goodbye_seconds = 3;

void wait_for(int descriptor, int milliseconds) {
  pollfd polled{descriptor, POLLIN, 0};
  ::poll(&polled, 1, milliseconds);
}

}  // namespace

World::World(const std::string& worker_program, const Placement& placement, double timeout_s)
    : placement_(placement),
      timeout_s_(timeout_s),
      parent_(::getppid()),
      relay_(worker_program, placement, timeout_s),
      hellos_(static_cast<size_t>(placement.world)),
      last_heard_(hellos_.size(), monotonic_seconds()) {}

World::~World() {
  if (!ended_) end(3);
}

void World::gather(const Json& own_hello) {
  hellos_[0] = own_hello;
  const double until = monotonic_seconds() + timeout_s_;
  const auto missing = [&] {
    std::vector<std::string> ranks;
    for (size_t r = 0; r < hellos_.size(); ++r)
      if (hellos_[r].is_null()) ranks.push_back(std::to_string(r));
    return ranks;
  };
  while (!missing().empty() && monotonic_seconds() < until) {
    wait_for(descriptor(), 100);
    for (const Json& message : receive()) record_hello(message);
  }
  if (const auto ranks = missing(); !ranks.empty())
    throw std::runtime_error(std::to_string(hellos_.size() - ranks.size()) + " of " + std::to_string(hellos_.size()) +
                             " ranks came within " + std::to_string(static_cast<int>(timeout_s_)) +
                             " s (--timeout), missing " + join(ranks));
  check_ranks_of_hosts(hellos_);
}

void World::record_hello(const Json& message) {
  if (message.contains("hello")) hellos_[message.at("rank").get<size_t>()] = message.at("hello");
}

std::string World::directory_of(int rank) const {
  const auto is_leader = [&](const Json& other) {
    return other.at("node") == hello(rank).at("node") && other.at("local_rank") == 0;
  };
  const auto leader = std::find_if(hellos_.begin(), hellos_.end(), is_leader);
  check(leader != hellos_.end(), "the host of rank " + std::to_string(rank) + " has no local rank 0");
  return leader->at("directory");
}

std::vector<std::string> World::names_of_hosts() const {
  std::vector<std::string> names;
  bool several = false;
  for (const Json& one : hellos_) {
    several = several || one.at("node") != hellos_[0].at("node");
    names.push_back(one_line(one.at("facts").at("name").get<std::string>(), 64));
  }
  return several ? names : std::vector<std::string>();
}

void World::tell_others(const Json& message) {
  for (int rank = 1; rank < ranks(); ++rank) tell(rank, message);
}

std::vector<Json> World::receive() {
  const double now = monotonic_seconds();
  if (now - alive_sent_at_ >= alive_every_seconds) {
    tell_others({{"do", name_of(AgentOrder::alive)}});
    alive_sent_at_ = now;
  }
  std::vector<Json> messages = relay_.receive();
  for (const Json& message : messages) {
    const int rank = message.at("rank");
    if (rank < 1 || rank >= ranks()) throw std::runtime_error("message of unknown rank " + std::to_string(rank));
    last_heard_[static_cast<size_t>(rank)] = now;
    if (message.contains("gone")) gone_reasons_[rank] = "is gone: " + sanitised(message.at("gone").get<std::string>());
    // If another rank received a signal, raise it in this process too, so that the whole run ends.
    if (message.contains("signal")) ::raise(message.at("signal").get<int>());
  }
  return messages;
}

void World::keep_alive() {
  try {
    receive();
  } catch (const std::exception&) {
    // Ignore errors of receive() while heartbeats are sent: the next receive() throws them again.
  }
}

std::map<int, std::string> World::gone() const {
  std::map<int, std::string> all = gone_reasons_;
  for (int rank = 1; rank < ranks(); ++rank)
    if (monotonic_seconds() - last_heard_[static_cast<size_t>(rank)] > silent_seconds)
      all.emplace(rank, "has sent nothing for " + std::to_string(static_cast<int>(silent_seconds)) + " s");
  return all;
}

bool World::launcher_is_gone() const { return ::getppid() != parent_; }

// Sends the exit code to the other ranks, then waits at most goodbye_seconds for the message {"bye":true} of each. This
// process must not exit earlier, because it may serve the rendezvous store.
void World::end(int code) {
  ended_ = true;
  try {
    tell_others({{"do", name_of(AgentOrder::end)}, {"code", code}});
    std::vector<bool> gone(hellos_.size(), false);
    gone[0] = true;
    const double until = monotonic_seconds() + goodbye_seconds;
    while (std::find(gone.begin(), gone.end(), false) != gone.end() && monotonic_seconds() < until) {
      wait_for(descriptor(), 50);
      for (const Json& message : relay_.receive())
        if (message.contains("bye")) gone[message.at("rank").get<size_t>()] = true;
    }
  } catch (const std::exception&) {
    // Ignore that other ranks cannot be reached at the end of the run: they notice the missing heartbeats.
  }
}

void check_ranks_of_hosts(const std::vector<Json>& hellos) {
  std::map<std::string, std::vector<size_t>> ranks_of;  // by node
  for (size_t rank = 0; rank < hellos.size(); ++rank) ranks_of[hellos[rank].at("node")].push_back(rank);
  for (const auto& [node, ranks] : ranks_of) {
    bool in_order = true;
    std::vector<std::string> numbers, local_ranks;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Json& local_rank = hellos[ranks[i]].at("local_rank");
      in_order = in_order && ranks[i] == ranks[0] + i && local_rank == i;
      numbers.push_back(std::to_string(ranks[i]));
      local_ranks.push_back(local_rank.dump());
    }
    if (in_order) continue;
    throw UsageError("host " + one_line(hellos[ranks[0]].at("facts").at("name").get<std::string>(), 64) +
                     " has the ranks " + join(numbers) + ", as its local ranks " + join(local_ranks) +
                     ". The ranks of a host must be consecutive, and its local ranks must count them from 0. Use srun "
                     "--distribution=block or mpirun --map-by slot, or set LOCAL_RANK");
  }
}

Json hosts_block(const World& world) {
  std::vector<std::pair<Json, LaunchedHost>> hosts;  // node identifier and description of each host
  for (int rank = 0; rank < world.ranks(); ++rank) {
    const Json& hello = world.hello(rank);
    auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.first == hello.at("node"); });
    if (known == hosts.end())
      known = hosts.insert(hosts.end(), {hello.at("node"), launched_host_from_json(hello.at("facts"))});
    known->second.ranks.push_back(rank);
  }
  Json list = Json::array();
  for (const auto& [node, host] : hosts) list.push_back(to_json(host));
  return list;
}

}  // namespace dpbench
