#include "strategies/comm/hosts/hosts.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>

namespace dpbench {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds check_interval{200};  // a waiting rank checks this often whether another host has given up
constexpr Milliseconds reason_grace{1000};   // another host has this much extra time to report why it is late
// Added to the timeouts of the parts of a call, so that check_deadline() ends a part before the part itself times out.
constexpr Milliseconds max_overrun{3000};

std::string leader_key(int leader) { return c10::str("leader-", leader); }
std::string complete_key(int leader) { return c10::str("complete-", leader); }
std::string left_key(int leader) { return c10::str("left-", leader); }
std::string waits_key(int leader, uint64_t call) { return c10::str("waits-", leader, "-", call); }
// Key of a flag in the rendezvous store. A leader (first rank of a host) sets it while it waits for other hosts,
// although all ranks of its own host have begun the call.
std::string ready_key(int leader, uint64_t call) { return c10::str("ready-", leader, "-", call); }

// Returns all hosts. Each leader (first rank of a host) publishes its host's number of ranks; the ranks of a host are
// consecutive.
std::vector<Host> find_hosts(const BackendSetup& setup, SideChannel& side_channel) {
  if (setup.local_rank == 0) side_channel.set(leader_key(setup.rank), std::to_string(setup.local_world));
  std::vector<Host> hosts;
  for (int first = 0; first < setup.world; first += hosts.back().count) {
    if (!side_channel.wait_for(leader_key(first), setup.timeout))
      throw std::runtime_error(c10::str("rank ", setup.global(setup.rank), " timed out waiting for rank ",
                                        setup.global(first), ", the leader of its host"));
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
  leaders.note = {};  // internal collectives between the leaders are not logged
  return leaders;
}

}  // namespace

HostsBackend::HostsBackend(const BackendSetup& setup, shm::Home home)
    : Backend(setup.rank, setup.world), timeout_(setup.timeout), side_channel_(setup.store), pairs_(setup) {
  for (int rank = 0; rank < setup.world; ++rank) numbers_.push_back(setup.global(rank));
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
        "the ranks of a host must be consecutive");
  local_ = c10::make_intrusive<shm::ShmBackend>(within_host(setup), home, here.first);
  if (leads()) connect(setup);
}

// Connects the leaders (first ranks of the hosts) once all ranks of all hosts have joined. A host with missing ranks
// reports them itself.
void HostsBackend::connect(const BackendSetup& setup) {
  side_channel_.set(complete_key(rank_), "");
  for (const Host& host : hosts_)
    if (!side_channel_.wait_for(complete_key(host.first), timeout_ + reason_grace))
      throw std::runtime_error(c10::str("rank ", global(rank_), " timed out waiting for ranks ", global(host.first),
                                        " to ", global(host.first + host.count - 1)));
  leaders_ = backend_registry().at("gloo").make(between_leaders(setup, own_, hosts_.size()));
}

// Tells the other hosts that this leader is leaving, so that they can explain a closed connection.
HostsBackend::~HostsBackend() {
  if (leads()) side_channel_.set_flag(left_key(rank_));
  abort();
}

void HostsBackend::abort() {
  aborted_ = true;
  pairs_.abort();
  local_->abort();
}

int HostsBackend::host_of(int rank) const {
  int host = 0;
  while (rank >= hosts_[host].first + hosts_[host].count) ++host;
  return host;
}

std::string HostsBackend::call_name() const { return c10::str("#", current_.number, " ", describe(current_.call)); }

// Stores the reason of the failure before the leaders' sockets close, so that the other hosts do not keep waiting.
// Returns the exception to throw.
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
    std::swap(wait_flags_, old_wait_flags_);
    try {
      if (failure_) std::rethrow_exception(failure_);
      require_agreement();
      clear_old_waits();
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

void HostsBackend::await(const WorkPtr& work, WaitFor target) {
  const auto slice = std::min(check_interval, current_.limit / 4 + Milliseconds(1));
  while (!done_within(*work, slice, target)) {
    if (aborted_) throw_aborted();
    if (const std::string why = side_channel_.reason(); !why.empty()) throw std::runtime_error(why);
    if (leads()) flag_wait(waits_key(rank_, current_.number));
    if (target == WaitFor::other_hosts) flag_wait(ready_key(rank_, current_.number));
    if (shm::Clock::now() >= current_.deadline) check_deadline(target);
  }
}

// Called after the deadline of the current call; throws if this rank should stop waiting. A host that has begun the
// call but lacks a rank gets extra time to report the missing rank. Waits within this rank's own host are skipped: they
// time out by themselves and name the missing ranks.
void HostsBackend::check_deadline(WaitFor target) {
  if (target == WaitFor::own_host) return;
  const auto over = shm::Clock::now() - current_.deadline;
  const auto is_ready = [&](int leader) {
    return side_channel_.flag_is_set(ready_key(leader, current_.number)).value_or(false);
  };
  if (target == WaitFor::leader && (over < 2 * reason_grace || !is_ready(hosts_[own_].first))) return;
  std::string late = late_hosts(/*begun=*/false);
  if (late.empty() && over < reason_grace) return;
  if (late.empty()) late = late_hosts(/*begun=*/true);
  throw std::runtime_error(c10::str("rank ", global(rank_), " timed out waiting for ",
                                    late.empty() ? "the other hosts" : late, " in ", call_name()));
}

void HostsBackend::flag_wait(const std::string& key) {
  if (std::find(wait_flags_.begin(), wait_flags_.end(), key) != wait_flags_.end()) return;
  if (side_channel_.set_flag(key)) wait_flags_.push_back(key);
}

// Clears this leader's flags of earlier calls. Call it when all ranks have reached the current call, because the old
// flags are no longer read then.
void HostsBackend::clear_old_waits() {
  if (!old_wait_flags_.empty()) side_channel_.clear_flags(old_wait_flags_);
  old_wait_flags_.clear();
}

// Returns false if the work is still running after `time`. Throws if it has failed.
bool HostsBackend::done_within(c10d::Work& work, Milliseconds time, WaitFor target) {
  try {
    return work.wait(time);
  } catch (const std::exception& error) {
    if (!work.isCompleted()) return false;
    if (!work.exception()) return true;
    throw_failed_part(error.what(), target);
  }
}

void HostsBackend::throw_aborted() const {
  throw std::runtime_error(c10::str("rank ", global(rank_), " gave up ", call_name(), ": its backend was aborted"));
}

// Throws the most specific reason known for the failure of a part of the current call. `error`: the message of the part
// itself.
void HostsBackend::throw_failed_part(const std::string& error, WaitFor target) {
  const bool between_hosts = target == WaitFor::other_hosts;
  if (aborted_) throw_aborted();
  if (const std::string gone = between_hosts ? gone_leaders() : ""; !gone.empty())
    throw std::runtime_error(c10::str(gone, " left the group while rank ", global(rank_), " waited in ", call_name()));
  if (const std::string why = side_channel_.reason(between_hosts ? reason_grace : Milliseconds{}); !why.empty())
    throw std::runtime_error(why);
  throw std::runtime_error(between_hosts ? c10::str("rank ", global(rank_), " lost the connection to another host in ",
                                                    call_name(), ": ", error)
                                         : c10::str(error, ", a part of ", call_name()));
}

void HostsBackend::await(const std::vector<WorkPtr>& parts) {
  for (const auto& part : parts) await(part, WaitFor::other_hosts);
}

// Returns the other hosts' leaders (first ranks) for which the predicate `is` holds, for example "rank 2 and rank 4".
template <class Is>
std::string HostsBackend::leaders_where(Is is) {
  std::string names;
  for (const Host& host : hosts_)
    if (host.first != rank_ && is(host.first))
      names += c10::str(names.empty() ? "rank " : " and rank ", global(host.first));
  return names;
}

// Returns the hosts that are late in the current call, as text. begun = false: hosts that have not begun the call;
// true: hosts that lack a rank. Returns an empty string if the store does not answer.
std::string HostsBackend::late_hosts(bool begun) {
  const auto key = begun ? ready_key : waits_key;
  const std::string leaders = leaders_where(
      [&](int leader) { return !side_channel_.flag_is_set(key(leader, current_.number)).value_or(true); });
  return begun && !leaders.empty() ? "ranks of the host of " + leaders : leaders;
}

std::string HostsBackend::gone_leaders() {
  return leaders_where([&](int leader) { return side_channel_.flag_is_set(left_key(leader)).value_or(false); });
}

Milliseconds HostsBackend::left() const {
  const auto time = std::chrono::duration_cast<Milliseconds>(current_.deadline - shm::Clock::now());
  return std::max(time, Milliseconds(1));
}

// Returns the timeout for parts of a call that check_deadline() watches. It is longer than the call's own timeout, so
// that check_deadline() fails first and gives the reason.
Milliseconds HostsBackend::padded_timeout() const { return left() + max_overrun; }

}  // namespace dpbench
