#include "strategies/comm/hosts/call_waits.h"

#include <algorithm>
#include <stdexcept>

#include <c10/util/StringUtil.h>

namespace dpbench {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Interval at which a waiting rank checks whether another host has given up.
constexpr Milliseconds check_interval{200};
// A collective across hosts consists of several operations, within a host and between hosts. Their timeouts exceed the
// collective's timeout by this value, so that check_deadline() ends the wait, with a better message, before an
// operation times out by itself.
constexpr Milliseconds max_overrun{3000};

std::string left_key(int leader) { return c10::str("left-", leader); }
std::string waits_key(int leader, uint64_t call) { return c10::str("waits-", leader, "-", call); }
// Key of a flag in the rendezvous store. A leader (first rank of a host) sets it while it waits for other hosts, after
// all ranks of its own host have begun the call.
std::string ready_key(int leader, uint64_t call) { return c10::str("ready-", leader, "-", call); }

}  // namespace

int Hosts::host_of(int of_rank) const {
  int host = 0;
  while (of_rank >= all[host].first + all[host].count) ++host;
  return host;
}

std::string HostsCall::name() const { return c10::str("#", number, " ", describe(call)); }

void CallWaits::begin(const HostsCall& call) {
  current_ = call;
  current_.deadline = shm::Clock::now() + call.limit;
  std::swap(flags_, old_flags_);
}

void CallWaits::leave() {
  if (hosts_.leads()) side_channel_.set_flag(left_key(hosts_.rank));
}

void CallWaits::await(const WorkPtr& work, WaitFor target) {
  const auto slice = std::min(check_interval, current_.limit / 4 + Milliseconds(1));
  while (!done_within(*work, slice, target)) {
    if (aborted_) throw_aborted();
    if (const std::string why = side_channel_.reason(); !why.empty()) throw std::runtime_error(why);
    if (hosts_.leads()) set_flag(waits_key(hosts_.rank, current_.number));
    if (target == WaitFor::other_hosts) set_flag(ready_key(hosts_.rank, current_.number));
    if (shm::Clock::now() >= current_.deadline) check_deadline(target);
  }
}

// Called when the deadline of the current call has passed; throws if this rank should stop waiting. A host that has
// begun the call but lacks a rank gets extra time to report that rank. A wait for ranks of this host
// (WaitFor::own_host) is left alone: it times out by itself and names the missing ranks.
void CallWaits::check_deadline(WaitFor target) {
  if (target == WaitFor::own_host) return;
  const auto over = shm::Clock::now() - current_.deadline;
  const auto is_ready = [&](int leader) {
    return side_channel_.flag_is_set(ready_key(leader, current_.number)).value_or(false);
  };
  if (target == WaitFor::leader && (over < 2 * reason_grace || !is_ready(hosts_.here().first))) return;
  std::string late = late_hosts(/*begun=*/false);
  if (late.empty() && over < reason_grace) return;
  if (late.empty()) late = late_hosts(/*begun=*/true);
  throw std::runtime_error(c10::str("rank ", hosts_.global(hosts_.rank), " timed out waiting for ",
                                    late.empty() ? "the other hosts" : late, " in ", current_.name()));
}

void CallWaits::set_flag(const std::string& key) {
  if (std::find(flags_.begin(), flags_.end(), key) != flags_.end()) return;
  if (side_channel_.set_flag(key)) flags_.push_back(key);
}

void CallWaits::clear_old_flags() {
  if (!old_flags_.empty()) side_channel_.clear_flags(old_flags_);
  old_flags_.clear();
}

// Waits up to `time` for the work. Returns false if the work is still running then. Throws if it has failed.
bool CallWaits::done_within(c10d::Work& work, Milliseconds time, WaitFor target) {
  try {
    return work.wait(time);
  } catch (const std::exception& error) {
    if (!work.isCompleted()) return false;
    if (!work.exception()) return true;
    throw_failed_part(error.what(), target);
  }
}

void CallWaits::throw_aborted() const {
  throw std::runtime_error(
      c10::str("rank ", hosts_.global(hosts_.rank), " gave up ", current_.name(), ": its backend was aborted"));
}

// Throws the most specific reason known for the failure of an operation (within this host or between hosts) of the
// current collective. `error`: the message of the operation itself.
void CallWaits::throw_failed_part(const std::string& error, WaitFor target) {
  const bool between_hosts = target == WaitFor::other_hosts;
  if (aborted_) throw_aborted();
  if (const std::string gone = between_hosts ? gone_leaders() : ""; !gone.empty())
    throw std::runtime_error(
        c10::str(gone, " left the group while rank ", hosts_.global(hosts_.rank), " waited in ", current_.name()));
  if (const std::string why = side_channel_.reason(between_hosts ? reason_grace : Milliseconds{}); !why.empty())
    throw std::runtime_error(why);
  throw std::runtime_error(between_hosts
                               ? c10::str("rank ", hosts_.global(hosts_.rank),
                                          " lost the connection to another host in ", current_.name(), ": ", error)
                               : c10::str(error, ", a part of ", current_.name()));
}

void CallWaits::await(const std::vector<WorkPtr>& parts) {
  for (const auto& part : parts) await(part, WaitFor::other_hosts);
}

// Returns the other hosts' leaders (first ranks) for which `is`(leader) is true, as text such as "rank 2 and rank 4".
template <class Is>
std::string CallWaits::leaders_where(Is is) {
  std::string names;
  for (const Host& host : hosts_.all)
    if (host.first != hosts_.rank && is(host.first))
      names += c10::str(names.empty() ? "rank " : " and rank ", hosts_.global(host.first));
  return names;
}

// Returns text that names the leaders of the hosts that are late in the current call. begun = false: hosts that have
// not begun the call; begun = true: hosts that have begun it but lack a rank. Returns an empty string if no host is
// late or the store does not answer.
std::string CallWaits::late_hosts(bool begun) {
  const auto key = begun ? ready_key : waits_key;
  const std::string leaders = leaders_where(
      [&](int leader) { return !side_channel_.flag_is_set(key(leader, current_.number)).value_or(true); });
  return begun && !leaders.empty() ? "ranks of the host of " + leaders : leaders;
}

std::string CallWaits::gone_leaders() {
  return leaders_where([&](int leader) { return side_channel_.flag_is_set(left_key(leader)).value_or(false); });
}

Milliseconds CallWaits::left() const {
  const auto time = std::chrono::duration_cast<Milliseconds>(current_.deadline - shm::Clock::now());
  return std::max(time, Milliseconds(1));
}

Milliseconds CallWaits::padded_timeout() const { return left() + max_overrun; }

}  // namespace dpbench
