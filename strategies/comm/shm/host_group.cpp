#include "strategies/comm/shm/host_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include <c10/util/StringUtil.h>

#include "strategies/comm/base/spin_pause.h"
#include "workloads/base/error.h"

namespace dpbench::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A waiting rank spins this long before it sleeps. Spinning covers the usual delay between ranks, and costs less than
// the two context switches of a sleep.
constexpr auto spin_time = microseconds(100);
// Returns the interval at which a waiting rank checks for dead ranks. The interval grows with the number of ranks,
// because each of them checks all others.
milliseconds check_interval(int world) { return milliseconds(5 * ((world + 7) / 8)); }

// Spins until done() is true or the time limit is over. If `yield` is true, it yields the core in between. Returns the
// last value of done().
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

// Sleeps on a futex: until another thread wakes its sleepers or the time limit is over. Returns at once if `word`
// differs from `seen`.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Returns the cores that this rank may run on; all cores if the kernel does not tell.
cpu_set_t own_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) std::memset(&cores, 0xff, sizeof cores);
  return cores;
}

// Returns the number, among all ranks, of each rank of this host that belongs to the group.
std::vector<int> checked_numbers(const BackendSetup& setup, int first_rank) {
  check(setup.local_rank >= 0 && setup.local_rank < setup.local_world,
        "rank " + std::to_string(setup.local_rank) + " is not in a group of " + std::to_string(setup.local_world));
  std::vector<int> numbers;
  for (int rank = 0; rank < setup.local_world; ++rank) numbers.push_back(setup.global(first_rank + rank));
  return numbers;
}

}  // namespace

HostGroup::HostGroup(const BackendSetup& setup, Home home, size_t slot_bytes, int first_rank)
    : rank_(setup.local_rank),
      numbers_(checked_numbers(setup, first_rank)),
      home_(home),
      segment_(setup, home, {setup.local_world, slot_bytes}, numbers_),
      pidfds_(setup.local_world),
      pollfds_(setup.local_world, pollfd{-1, 0, 0}),
      died_(setup.local_world) {
  seat(rank_).cores = own_cores();
  seat(rank_).pid.store(getpid());
  announce({.kind = Kind::join});
  try {
    meet(Clock::now() + setup.timeout);
    require_agreement();
  } catch (...) {
    leave();
    throw;
  }
  segment_.close_file();
  // Opens the process file descriptors now; after a rank's death, its process id may belong to another process.
  dead_peers();
  crowded_ = !has_core_per_rank();
}

HostGroup::~HostGroup() { leave(); }

// Returns true if the ranks of this host have at least one core each. Counts the cores on which any of the ranks may
// run, because ranks may be pinned to different cores.
bool HostGroup::has_core_per_rank() const {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int r = 0; r < world(); ++r) CPU_OR(&all, &all, &seat(r).cores);
  return CPU_COUNT(&all) >= world();
}

void HostGroup::announce(const Call& call, const Place& place) {
  if (segment_.header().state.load() != Segment::sound) throw_reason();
  seat(rank_).announcements[++sequence_ % 2] = {call, place};
}

void HostGroup::arrive() {
  Seat& mine = seat(rank_);
  // No wake-up is lost: this rank writes `phase` and then reads `sleepers`, while a rank that goes to sleep increments
  // `sleepers` and then reads `phase`. All four are sequentially consistent, so one of the two ranks sees the other's
  // write.
  mine.phase.store(++phase_);
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
  return spin(spin_time, crowded_, [&] { return all_arrived(); });
}

void HostGroup::wait(Clock::time_point deadline) {
  if (wait_briefly()) return;
  for (int r = 0; r < world(); ++r)
    while (!arrived(r)) {
      check_peers(r, deadline);
      sleep_until_change(r);
    }
}

void HostGroup::sleep_until_change(int rank) {
  Seat& peer = seat(rank);
  peer.sleepers.fetch_add(1);
  const uint32_t seen = peer.phase.load();
  if (!arrived(rank) && segment_.header().state.load() == Segment::sound)
    futex_wait(peer.phase, seen, check_interval(world()));
  peer.sleepers.fetch_sub(1);
}

void HostGroup::check_peers(int missing, Clock::time_point deadline) {
  if (segment_.header().state.load() != Segment::sound) throw_reason();
  const std::string meanwhile = " while " + name_of(rank_) + " waited in " + call_name(rank_);
  if (seat(rank_).left.load())
    fail(name_of(rank_) + " gave up " + call_name(rank_) + ": its backend was aborted or destroyed");
  const auto dead = dead_peers();
  for (int r = 0; r < world(); ++r) {
    if (r == rank_) continue;
    const bool left = seat(r).left.load(), died = !left && dead[r];
    if (arrived(r)) {
      require_same_call(r);  // a rank that has arrived at the barrier made the call, even if it has left or died since
    } else if (left || died) {
      fail(name_of(r) + (left ? " left the group" : " died") + meanwhile);
    }
  }
  if (Clock::now() < deadline) return;
  fail(name_of(rank_) + " timed out waiting for " + name_of(missing) + " in " + call_name(rank_) +
       "; it was last seen in " + last_seen(missing));
}

// Checks which ranks have died. A pidfd (process file descriptor) becomes readable when its process ends, even before
// the process is reaped, and one poll() checks all. A pidfd is opened once its rank has joined; if that fails, the next
// call tries again. Ranks that are threads are never reported.
std::vector<bool> HostGroup::dead_peers() {
  const std::lock_guard lock(watching_);
  if (home_ == Home::threads) return died_;
  for (int r = 0; r < world(); ++r) {
    if (r == rank_ || pollfds_[r].fd >= 0 || pid(r) == 0) continue;
    pidfds_[r] = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid(r), 0)));
    if (!pidfds_[r] && (errno == ESRCH || (kill(pid(r), 0) != 0 && errno == ESRCH)))
      died_[r] = true;  // pidfd_open() fails too if no file descriptor is left; kill() tells whether the process exists
    pollfds_[r] = {.fd = pidfds_[r].get(), .events = POLLIN, .revents = 0};
  }
  poll(pollfds_.data(), pollfds_.size(), 0);
  for (int r = 0; r < world(); ++r)
    if (pollfds_[r].revents != 0) died_[r] = true;
  return died_;
}

void HostGroup::require_sound() {
  if (segment_.header().state.load() != Segment::sound) throw_reason();
  if (seat(rank_).left.load()) fail(name_of(rank_) + " gave up: its backend was aborted or destroyed");
}

std::string HostGroup::how_gone(int rank) {
  if (seat(rank).left.load()) return "left the group";
  return dead_peers()[rank] ? "died" : "";
}

void HostGroup::ring(int rank) {
  seat(rank).bell.fetch_add(1);
  futex_wake_all(seat(rank).bell);
}

void HostGroup::wait_for_bell(uint32_t seen) { futex_wait(seat(rank_).bell, seen, check_interval(world())); }

void HostGroup::require_same_call(int rank) {
  if (announced(rank).call == announced(rank_).call) return;
  const int low = std::min(rank, rank_), high = std::max(rank, rank_);
  fail("ranks do not make the same call: " + name_of(low) + " " + call_name(low) + ", " + name_of(high) + " " +
       call_name(high));
}

void HostGroup::require_agreement() {
  for (int r = 0; r < world(); ++r) require_same_call(r);
  agreed_ = sequence_;
}

void HostGroup::fail(const std::string& reason) {
  Segment& shared = segment_.header();
  uint32_t expected = Segment::sound;
  if (shared.state.compare_exchange_strong(expected, Segment::breaking)) {
    reason.copy(shared.reason, sizeof shared.reason - 1);
    shared.state.store(Segment::broken);
    for (int r = 0; r < world(); ++r) futex_wake_all(seat(r).phase);
  }
  throw_reason();
}

void HostGroup::throw_reason() {
  const Segment& shared = segment_.header();
  // Waits while another rank writes the failure's reason to shared memory. That rank only copies a text, so if it takes
  // longer than this limit, it has died.
  const bool readable = spin(milliseconds(200), true, [&] { return shared.state.load() == Segment::broken; });
  throw std::runtime_error(readable ? shared.reason
                                    : "the group was broken by a rank that died before it gave a reason");
}

void HostGroup::leave() {
  seat(rank_).left.store(1);
  for (int r = 0; r < world(); ++r) futex_wake_all(seat(r).phase), ring(r);
}

std::string HostGroup::call_name(int rank) const {
  return c10::str("#", sequence_, " ", describe(announced(rank).call));
}

// Returns the rank's description of the last call that all ranks announced equally. The rank's newer announcement, if
// any, cannot be read safely, because the rank may still be writing it.
std::string HostGroup::last_seen(int rank) const {
  if (agreed_ == 0) return "no call";
  return c10::str("#", agreed_, " ", describe(seat(rank).announcements[agreed_ % 2].call));
}

std::string HostGroup::name_of(int rank) const {
  const pid_t process = pid(rank);
  const std::string name = c10::str("rank ", numbers_.at(static_cast<size_t>(rank)));
  if (process == 0) return name + " (not yet there)";
  return home_ == Home::processes ? c10::str(name, " (pid ", process, ")") : name;
}

}  // namespace dpbench::shm
