#include "harness/front/launch/outside/launched_group.h"

#include <poll.h>

#include <algorithm>
#include <exception>

#include "harness/front/launch/outside/error_file.h"
#include "harness/front/launch/outside/rank_state.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

// Time that rank 0 waits for the agents (dpbench on the other ranks) to close the group, after its own worker has
// ended.
constexpr double closing_seconds = 12;

}  // namespace

Seat seat_of(const Placement& placement, const std::string& directory) {
  return {.rank = placement.rank,
          .local_rank = placement.local_rank,
          .local_world = placement.local_world,
          .world = placement.world,
          .directory = directory,
          .store = placement.master_addr + ":" + std::to_string(placement.master_port),
          .nonce = placement.nonce,
          .master = placement.master_addr};
}

class LaunchedGroup::LocalEvents : public RankEvents {
 public:
  LocalEvents(std::vector<RankState>& states, RankEvents& events) : states_(states), events_(events) {}
  void on_line(int rank, const std::string& line, double now) override { events_.on_line(rank, line, now); }
  void on_offence(int rank, const std::string& what, double now) override { events_.on_offence(rank, what, now); }
  void on_death(int rank, int wait_status, double now, const std::string& why) override {
    if (wait_status != 0) write_error_file("its worker ended with " + describe_exit(wait_status));
    events_.on_death(rank, wait_status, now, why);
  }
  void on_states(const std::vector<RankState>& states, double now) override {
    states_[0] = states[0];
    events_.on_states(states_, now);
  }

 private:
  std::vector<RankState>& states_;
  RankEvents& events_;
};

LaunchedGroup::LaunchedGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch)
    : world_(*settings.world),
      local_(spec, settings, scratch, seat_of(world_.placement(), world_.directory_of(0))),
      states_(static_cast<size_t>(spec.processes)),
      closed_(states_.size(), false) {
  ++world_.open_groups;
  Json group = to_json(spec);
  group["name"] = spec.name;
  for (int rank = 1; rank < world_.ranks(); ++rank)
    world_.tell(rank, {{"do", name_of(AgentOrder::open)},
                       {"spec", group},
                       {"timeout_s", settings.timeout_s},
                       {"directory", world_.directory_of(rank)}});
}

void LaunchedGroup::send(const Json& message) {
  local_.send(message);
  world_.tell_others({{"do", name_of(AgentOrder::tell)}, {"group", spec().name}, {"message", message}});
}

bool LaunchedGroup::wait(RankEvents& events, const Signals& signals, int milliseconds) {
  LocalEvents local(states_, events);
  const bool signalled = local_.wait(local, signals, milliseconds, lost_ ? -1 : world_.descriptor());
  const double now = monotonic_seconds();
  if (lost_) return signalled;
  try {
    for (const Json& message : world_.receive()) handle(message, events);
    events.on_states(states_, now);
    for (const auto& [rank, why] : world_.gone())
      if (!gone_.contains(rank)) {
        gone_.insert(rank);
        events.on_offence(rank, why, now);
      }
  } catch (const std::exception& error) {
    lost_ = true;
    // Give a dying launcher 200 ms to exit. If it served the rendezvous store, its exit is the cause of the error, and
    // no rank is to blame.
    ::poll(nullptr, 0, 200);
    if (!world_.launcher_is_gone()) events.on_offence(0, std::string("lost the other ranks: ") + error.what(), now);
  }
  return signalled;
}

void LaunchedGroup::handle(const Json& message, RankEvents& events) {
  if (message.value("group", "") != spec().name) return;  // ignore messages about other groups of ranks
  const int rank = message.at("rank");
  const double now = monotonic_seconds();
  if (message.contains("state")) {
    states_[static_cast<size_t>(rank)] = rank_state_from_json(message.at("state"));
    events.on_states(states_, now);
  }
  if (message.contains("line")) events.on_line(rank, message.at("line"), now);
  if (message.contains("offence")) events.on_offence(rank, message.at("offence"), now);
  if (message.contains("words")) log_tails_[rank] = sanitised(message.at("words").get<std::string>());
  if (message.contains("death"))
    events.on_death(rank, message.at("death"), now, one_line(message.value("why", ""), 200));
  if (message.contains("closed")) closed_[static_cast<size_t>(rank)] = true;
}

// Waits until all agents (dpbench on the other ranks) have closed the group, for at most `seconds`. Returns their error
// messages.
std::vector<std::string> LaunchedGroup::await_closed(double seconds) {
  std::vector<std::string> complaints;
  const double until = monotonic_seconds() + seconds;
  closed_[0] = true;
  try {
    while (!lost_ && std::find(closed_.begin(), closed_.end(), false) != closed_.end() && monotonic_seconds() < until) {
      pollfd polled{world_.descriptor(), POLLIN, 0};
      ::poll(&polled, 1, 50);
      for (const Json& message : world_.receive()) {
        if (message.value("group", "") != spec().name || !message.contains("closed")) continue;
        closed_[message.at("rank").get<size_t>()] = true;
        for (const Json& complaint : message.at("closed"))
          complaints.push_back(sanitised(complaint.get<std::string>()));
      }
      for (const auto& [rank, why] : world_.gone()) closed_[static_cast<size_t>(rank)] = true;
    }
  } catch (const std::exception& error) {
    lost_ = true;
    complaints.push_back(std::string("lost the other ranks: ") + error.what());
  }
  return complaints;
}

std::vector<std::string> LaunchedGroup::quit(const Signals& signals) {
  world_.tell_others({{"do", name_of(AgentOrder::quit)}, {"group", spec().name}});
  std::vector<std::string> complaints = local_.quit(signals);
  for (auto& complaint : await_closed(closing_seconds)) complaints.push_back(std::move(complaint));
  return complaints;
}

void LaunchedGroup::kill(const Signals& signals) {
  world_.tell_others({{"do", name_of(AgentOrder::kill)}, {"group", spec().name}});
  local_.kill(signals);
  await_closed(closing_seconds);
}

std::string LaunchedGroup::log_tail(int rank) const {
  if (rank == 0) return local_.log_tail(0);
  const auto known = log_tails_.find(rank);
  return known == log_tails_.end() ? "" : known->second;
}

}  // namespace dpbench
