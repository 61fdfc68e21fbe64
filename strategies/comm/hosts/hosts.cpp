#include "strategies/comm/hosts/hosts.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>

namespace dpbench {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds look_around{200};    // how soon a host that waits side_channel that another has given up
constexpr Milliseconds for_a_reason{1000};  // how much longer than a host itself others wait for its word
constexpr Milliseconds last_resort{3000};   // by then a wait has ended by itself, or those who end it have died

std::string leader_key(int leader) { return c10::str("leader-", leader); }
std::string complete_key(int leader) { return c10::str("complete-", leader); }
std::string left_key(int leader) { return c10::str("left-", leader); }
std::string waits_key(int leader, uint64_t call) { return c10::str("waits-", leader, "-", call); }
std::string ready_key(int leader, uint64_t call) {
  return c10::str("ready-", leader, "-", call);
}  // waits for others, its host is complete

// Each leader says how many ranks it leads; the ranks of a host follow each other.
std::vector<Host> find_hosts(const BackendSetup& setup, SideChannel& side_channel) {
  if (setup.local_rank == 0) side_channel.set(leader_key(setup.rank), std::to_string(setup.local_world));
  std::vector<Host> hosts;
  for (int first = 0; first < setup.world; first += hosts.back().count) {
    if (!side_channel.wait_for(leader_key(first), setup.timeout))
      throw std::runtime_error(
          c10::str("rank ", setup.rank, " waited in vain for rank ", first, ", the leader of its host"));
    hosts.push_back({first, std::stoi(side_channel.get(leader_key(first)))});
    check(hosts.back().count > 0, "a host without ranks");
  }
  return hosts;
}

BackendSetup within_host(const BackendSetup& setup) {
  BackendSetup local = setup;
  local.store = c10::make_intrusive<c10d::PrefixStore>(c10::str("host-", setup.rank - setup.local_rank), setup.store);
  local.rank = setup.local_rank;
  local.world = setup.local_world;
  return local;
}

BackendSetup between_leaders(const BackendSetup& setup, int own, size_t hosts) {
  BackendSetup leaders = setup;
  leaders.store = c10::make_intrusive<c10d::PrefixStore>("leaders", setup.store);
  leaders.rank = own;
  leaders.world = static_cast<int>(hosts);
  leaders.local_rank = 0;
  leaders.local_world = 1;
  leaders.note = {};  // these calls are not what the ranks call
  return leaders;
}

}  // namespace

HostsBackend::HostsBackend(const BackendSetup& setup, shm::Home home)
    : Backend(setup.rank, setup.world), timeout_(setup.timeout), side_channel_(setup.store) {
  try {
    join(setup, home);
  } catch (const std::exception& error) {
    throw std::runtime_error(side_channel_.give_up(error.what()));
  }
}

void HostsBackend::join(const BackendSetup& setup, shm::Home home) {
  hosts_ = find_hosts(setup, side_channel_);
  own_ = host_of(setup.rank);
  const Host& here = hosts_[own_];
  check(here.first == setup.rank - setup.local_rank && here.count == setup.local_world,
        "the ranks of a host must follow each other");
  local_ = c10::make_intrusive<shm::ShmBackend>(within_host(setup), home, here.first);
  if (leads()) connect(setup);
}

// When all hosts are complete: what is missing on one of them it says itself.
void HostsBackend::connect(const BackendSetup& setup) {
  side_channel_.set(complete_key(rank_), "");
  for (const Host& host : hosts_)
    if (!side_channel_.wait_for(complete_key(host.first), timeout_ + for_a_reason))
      throw std::runtime_error(
          c10::str("rank ", rank_, " waited in vain for the ranks ", host.first, " to ", host.first + host.count - 1));
  leaders_ = backend_registry().at("gloo").make(between_leaders(setup, own_, hosts_.size()));
}

// What lies at the other end of a connection that closes is then known.
HostsBackend::~HostsBackend() {
  if (leads()) side_channel_.note(left_key(rank_));
  abort();
}

void HostsBackend::abort() {
  aborted_ = true;
  local_->abort();
}

int HostsBackend::host_of(int rank) const {
  int host = 0;
  while (rank >= hosts_[host].first + hosts_[host].count) ++host;
  return host;
}

std::string HostsBackend::called() const { return c10::str("#", current_.number, " ", describe(current_.call)); }

// A failure on one host must not leave the others waiting: its reason is in the store before the leaders' sockets
// close.
std::exception_ptr HostsBackend::give_up(const std::string& reason) {
  const std::string why = side_channel_.give_up(reason);
  local_->fail(why);
  return std::make_exception_ptr(std::runtime_error(why));
}

HostsBackend::WorkPtr HostsBackend::start(c10d::OpType type, const shm::Call& call, Milliseconds timeout,
                                          Tensors outputs, std::function<void()> steps) {
  const Current mine{call, ++calls_ + 1, timeout.count() > 0 ? timeout : timeout_};
  auto work = c10::make_intrusive<CommWork>(rank_, type, mine.number - 1, std::move(outputs));
  queue_.push([this, mine, work, steps = std::move(steps)] {
    const c10::NoGradGuard guard;
    current_ = mine;
    current_.deadline = shm::Clock::now() + mine.limit;
    std::swap(noted_, noted_before_);
    try {
      if (failure_) std::rethrow_exception(failure_);
      require_agreement();
      forget_waits();
      steps();
      return work->succeed();
    } catch (const std::exception& error) {
      if (!failure_) failure_ = give_up(error.what());
    }
    work->fail(failure_);
    leaders_ = nullptr;
  });
  return work;
}

void HostsBackend::await(const WorkPtr& work, For whom) {
  const auto slice = std::min(look_around, current_.limit / 4 + Milliseconds(1));
  while (!done_within(*work, slice, whom)) {
    if (aborted_) throw_aborted();
    if (const std::string why = side_channel_.reason(); !why.empty()) throw std::runtime_error(why);
    if (leads()) note_wait(waits_key(rank_, current_.number));
    if (whom == For::other_hosts) note_wait(ready_key(rank_, current_.number));
    if (shm::Clock::now() >= current_.deadline) give_up_in_time(whom);
  }
}

// The call's time is up. Of a host that has begun it and lacks a rank, its own word is awaited a little longer: it
// knows which. What waits for ranks of its own host ends by itself, with their names, and so does a leader that says
// nothing.
void HostsBackend::give_up_in_time(For whom) {
  if (whom == For::own_host) return;
  const auto over = shm::Clock::now() - current_.deadline;
  const auto is_ready = [&](int leader) {
    return side_channel_.is_noted(ready_key(leader, current_.number)).value_or(false);
  };
  if (whom == For::leader && (over < 2 * for_a_reason || !is_ready(hosts_[own_].first))) return;
  std::string late = late_hosts(/*begun=*/false);
  if (late.empty() && over < for_a_reason) return;
  if (late.empty()) late = late_hosts(/*begun=*/true);
  throw std::runtime_error(
      c10::str("rank ", rank_, " waited in vain for ", late.empty() ? "the other hosts" : late, " in ", called()));
}

void HostsBackend::note_wait(const std::string& key) {
  if (std::find(noted_.begin(), noted_.end(), key) != noted_.end()) return;
  if (side_channel_.note(key)) noted_.push_back(key);
}

// Once all ranks have come to a call, nobody asks any more who waited in those before it.
void HostsBackend::forget_waits() {
  if (!noted_before_.empty()) side_channel_.forget(noted_before_);
  noted_before_.clear();
}

// False when the time is up and the work goes on.
bool HostsBackend::done_within(c10d::Work& work, Milliseconds time, For whom) {
  try {
    return work.wait(time);
  } catch (const std::exception& error) {
    if (!work.isCompleted()) return false;
    if (!work.exception()) return true;
    throw_why(error.what(), whom);
  }
}

void HostsBackend::throw_aborted() const {
  throw std::runtime_error(c10::str("rank ", rank_, " gave up ", called(), ": its backend was aborted"));
}

// A part of the current call has failed with these words.
void HostsBackend::throw_why(const std::string& words, For whom) {
  const bool between_hosts = whom == For::other_hosts;
  if (aborted_) throw_aborted();
  if (const std::string gone = between_hosts ? gone_leaders() : ""; !gone.empty())
    throw std::runtime_error(c10::str(gone, " left the group while rank ", rank_, " waited in ", called()));
  if (const std::string why = side_channel_.reason(between_hosts ? for_a_reason : Milliseconds{}); !why.empty())
    throw std::runtime_error(why);
  throw std::runtime_error(between_hosts
                               ? c10::str("rank ", rank_, " lost touch with another host in ", called(), ": ", words)
                               : c10::str(words, ", a part of ", called()));
}

void HostsBackend::await(const std::vector<WorkPtr>& parts) {
  for (const auto& part : parts) await(part, For::other_hosts);
}

// The other hosts' leaders of whom this is so, as in "rank 2 and rank 4".
template <class Is>
std::string HostsBackend::leaders_who(Is is) {
  std::string names;
  for (const Host& host : hosts_)
    if (host.first != rank_ && is(host.first)) names += c10::str(names.empty() ? "rank " : " and rank ", host.first);
  return names;
}

// Who has not begun the current call, or has begun it and still lacks a rank of its host: as the store says, and nobody
// where it says nothing.
std::string HostsBackend::late_hosts(bool begun) {
  const auto key = begun ? ready_key : waits_key;
  const std::string leaders =
      leaders_who([&](int leader) { return !side_channel_.is_noted(key(leader, current_.number)).value_or(true); });
  return begun && !leaders.empty() ? "ranks of the host of " + leaders : leaders;
}

std::string HostsBackend::gone_leaders() {
  return leaders_who([&](int leader) { return side_channel_.is_noted(left_key(leader)).value_or(false); });
}

Milliseconds HostsBackend::left() const {
  const auto time = std::chrono::duration_cast<Milliseconds>(current_.deadline - shm::Clock::now());
  return std::max(time, Milliseconds(1));
}

// Of parts for which somebody looks at the clock himself.
Milliseconds HostsBackend::patience() const { return left() + last_resort; }

}  // namespace dpbench
