#include "strategies/comm/shm/host_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>
#include <stdexcept>

#include <c10/util/StringUtil.h>

#include "strategies/comm/base/spin_pause.h"
#include "workloads/base/error.h"

namespace dpbench::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kSpin = microseconds(100);  // covers the usual skew of ranks, and costs less than two switches
// How soon a death is noticed: at once in a small group; in a large one many look, and each of them rarely.
milliseconds look_around(int world) { return milliseconds(5 * ((world + 7) / 8)); }

// Spins, or lets others run where cores are short, until done or the time is up.
template <class Done>
bool spin(std::chrono::nanoseconds limit, bool yield, Done done) {
  const auto end = Clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      spin_pause();
    }
    if (yield) sched_yield();
  } while (Clock::now() < end);
  return done();
}

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Returns when the word is no longer `seen`, when it is woken, or after `limit`.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Seat& HostGroup::seat(int rank) const { return reinterpret_cast<Seat*>(base_ + sizeof(Segment))[rank]; }

char* HostGroup::slot(int rank, uint64_t turn) const {
  return base_ + layout_.slots_begin() + (2 * static_cast<uint64_t>(rank) + turn % 2) * layout_.slot_bytes;
}

void HostGroup::announce(const Call& call, const Place& place) {
  if (segment().state.load() != Segment::sound) raise();
  seat(rank_).said[++sequence_ % 2] = {call, place};
}

void HostGroup::arrive() {
  Seat& mine = seat(rank_);
  mine.phase.store(++phase_);  // sequentially consistent, as is the sleeper's count: one of the two sees the other
  if (mine.sleepers.load() > 0) futex_wake_all(mine.phase);
}

bool HostGroup::arrived(int rank) const {
  return static_cast<int32_t>(seat(rank).phase.load(std::memory_order_acquire) - phase_) >= 0;
}

bool HostGroup::all_arrived() const {
  for (int r = 0; r < world(); ++r)
    if (!arrived(r)) return false;
  return true;
}

bool HostGroup::wait_briefly() {
  return spin(kSpin, crowded_, [&] { return all_arrived(); });
}

void HostGroup::wait(Clock::time_point deadline) {
  if (wait_briefly()) return;
  for (int r = 0; r < world(); ++r)
    while (!arrived(r)) {
      look_for_trouble(r, deadline);
      sleep_until_change(r);
    }
}

void HostGroup::sleep_until_change(int rank) {
  Seat& peer = seat(rank);
  peer.sleepers.fetch_add(1);
  const uint32_t seen = peer.phase.load();
  if (!arrived(rank) && segment().state.load() == Segment::sound) futex_wait(peer.phase, seen, look_around(world()));
  peer.sleepers.fetch_sub(1);
}

void HostGroup::look_for_trouble(int missing, Clock::time_point deadline) {
  if (segment().state.load() != Segment::sound) raise();
  const std::string meanwhile = " while " + named(rank_) + " waited in " + called(rank_);
  if (seat(rank_).left.load())
    fail(named(rank_) + " gave up " + called(rank_) + ": its backend was aborted or destroyed");
  watch_peers();
  for (int r = 0; r < world(); ++r) {
    if (r == rank_) continue;
    const bool left = seat(r).left.load(), died = !left && died_[r];
    if (arrived(r)) {
      compare(r);  // also if it came just before it went
    } else if (left || died) {
      fail(named(r) + (left ? " left the group" : " died") + meanwhile);
    }
  }
  if (Clock::now() < deadline) return;
  fail(named(rank_) + " waited in vain for " + named(missing) + " in " + called(rank_) + "; it was last seen in " +
       last_seen(missing));
}

// A pidfd becomes readable when its process has ended, also while nobody has reaped it. All are asked by one call. They
// are opened when the group is complete; for whoever a descriptor could not be had then, one is tried for each time.
void HostGroup::watch_peers() {
  if (home_ == Home::threads) return;
  for (int r = 0; r < world(); ++r) {
    if (r == rank_ || watched_[r].fd >= 0 || pid(r) == 0) continue;
    endings_[r] = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid(r), 0)));
    if (!endings_[r] && (errno == ESRCH || (kill(pid(r), 0) != 0 && errno == ESRCH)))
      died_[r] = true;  // no descriptor left: asked each time
    watched_[r] = {.fd = endings_[r].get(), .events = POLLIN, .revents = 0};
  }
  poll(watched_.data(), watched_.size(), 0);
  for (int r = 0; r < world(); ++r)
    if (watched_[r].revents != 0) died_[r] = true;
}

void HostGroup::compare(int rank) {
  if (said(rank).call == said(rank_).call) return;
  const int low = std::min(rank, rank_), high = std::max(rank, rank_);
  fail("ranks do not make the same call: " + named(low) + " " + called(low) + ", " + named(high) + " " + called(high));
}

void HostGroup::require_agreement() {
  for (int r = 0; r < world(); ++r) compare(r);
  agreed_ = sequence_;
}

void HostGroup::fail(const std::string& reason) {
  Segment& shared = segment();
  uint32_t expected = Segment::sound;
  if (shared.state.compare_exchange_strong(expected, Segment::breaking)) {
    reason.copy(shared.reason, sizeof shared.reason - 1);
    shared.state.store(Segment::broken);
    for (int r = 0; r < world(); ++r) futex_wake_all(seat(r).phase);
  }
  raise();
}

void HostGroup::raise() {
  const Segment& shared = segment();
  // Whoever is breaking it is at most a copy away from being done, unless it died there.
  const bool readable = spin(milliseconds(200), true, [&] { return shared.state.load() == Segment::broken; });
  throw std::runtime_error(readable ? shared.reason : "the group was broken by a rank that died at once");
}

void HostGroup::leave() {
  seat(rank_).left.store(1);
  for (int r = 0; r < world(); ++r) futex_wake_all(seat(r).phase);
}

std::string HostGroup::called(int rank) const { return c10::str("#", sequence_, " ", describe(said(rank).call)); }

// A rank that is behind may be writing what it says next: only what all agreed on can be read safely.
std::string HostGroup::last_seen(int rank) const {
  if (agreed_ == 0) return "nothing at all";
  return c10::str("#", agreed_, " ", describe(seat(rank).said[agreed_ % 2].call));
}

std::string HostGroup::named(int rank) const {
  const pid_t process = pid(rank);
  const std::string name = c10::str("rank ", first_rank_ + rank);
  if (process == 0) return name + " (not yet there)";
  return home_ == Home::processes ? c10::str(name, " (pid ", process, ")") : name;
}

}  // namespace dpbench::shm
