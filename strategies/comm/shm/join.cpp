// Set-up of a group's segment (its shared memory): the first rank creates it and publishes it in the store, the others
// map it.
#include <unistd.h>

#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <c10/util/StringUtil.h>

#include "strategies/comm/shm/host_group.h"
#include "workloads/base/error.h"

namespace dpbench::shm {
namespace {

constexpr const char* kTicketKey = "shm-segment";

// Data that the first rank publishes in the store, so that the others can map the segment.
struct Ticket {
  pid_t pid = 0;
  int fd = -1;
  size_t bytes = 0;

  std::string text() const { return std::to_string(pid) + " " + std::to_string(fd) + " " + std::to_string(bytes); }
};

Ticket read_ticket(const BackendSetup& setup, int mine, int first) {
  try {
    setup.store->wait({kTicketKey}, setup.timeout);
  } catch (const std::exception&) {
    throw std::runtime_error(c10::str("rank ", mine, " timed out waiting for rank ", first, " to create the group (",
                                      setup.timeout.count(), " ms)"));
  }
  Ticket ticket;
  std::istringstream text(setup.store->get_to_str(kTicketKey));
  check(bool(text >> ticket.pid >> ticket.fd >> ticket.bytes), "the group's ticket cannot be read: " + text.str());
  return ticket;
}

// Mappings shared by ranks that are threads of this process. A second mapping of the same memory would hide data races
// from ThreadSanitizer.
class SharedMappings {
 public:
  void add(int fd, const std::shared_ptr<Mapping>& mapping) {
    const std::lock_guard lock(mutex_);
    mappings_[fd] = mapping;
  }
  std::shared_ptr<Mapping> find(int fd) {
    const std::lock_guard lock(mutex_);
    return mappings_[fd].lock();
  }

 private:
  std::mutex mutex_;
  // Mappings by the memory's file descriptor, which stays open until all ranks have joined.
  std::map<int, std::weak_ptr<Mapping>> mappings_;
};

SharedMappings& shared_mappings() {
  static SharedMappings mappings;
  return mappings;
}

// Returns the cores that this rank may run on; all cores if the kernel does not tell.
cpu_set_t own_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) std::memset(&cores, 0xff, sizeof cores);
  return cores;
}

}  // namespace

// True if the group has at least one core per rank. The cores of all ranks are combined, because ranks may be pinned to
// different ones.
bool HostGroup::has_core_per_rank() const {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int r = 0; r < world(); ++r) CPU_OR(&all, &all, &seat(r).cores);
  return CPU_COUNT(&all) >= world();
}

void HostGroup::open_segment(const BackendSetup& setup) {
  if (rank_ == 0) {
    memory_ = create_memory("dpbench-group", map_.bytes());
    mapping_ = std::make_shared<Mapping>(memory_.get(), map_.bytes());
    new (mapping_->data()) Segment;
    for (int r = 0; r < world(); ++r) new (mapping_->data() + sizeof(Segment) + r * sizeof(Seat)) Seat;
    // Mailboxes need no constructor: the memory is zeroed, and touching them would allocate all of it.
    if (home_ == Home::threads) shared_mappings().add(memory_.get(), mapping_);
    const std::string ticket = Ticket{getpid(), memory_.get(), map_.bytes()}.text();
    setup.store->set(kTicketKey, std::vector<uint8_t>(ticket.begin(), ticket.end()));
    return;
  }
  const int mine = numbers_.at(static_cast<size_t>(rank_)), first = numbers_.at(0);
  const Ticket ticket = read_ticket(setup, mine, first);
  check(ticket.bytes == map_.bytes(), c10::str("rank ", mine, " expects a different group size than rank ", first));
  if (home_ == Home::threads) {
    mapping_ = shared_mappings().find(ticket.fd);
    check(mapping_ != nullptr, c10::str("rank ", first, " is not a thread of this process, or has given up"));
    return;
  }
  try {
    mapping_ = std::make_shared<Mapping>(map_memory_of(ticket.pid, ticket.fd, ticket.bytes));
  } catch (const std::exception& error) {
    throw std::runtime_error(c10::str("rank ", mine, " cannot join rank ", first, " (pid ", ticket.pid,
                                      "), which may have died or given up: ", error.what()));
  }
}

HostGroup::HostGroup(const BackendSetup& setup, Home home, size_t slot_bytes, int first_rank)
    : rank_(setup.local_rank),
      home_(home),
      map_{setup.local_world, slot_bytes},
      pidfds_(setup.local_world),
      pollfds_(setup.local_world, pollfd{-1, 0, 0}),
      died_(setup.local_world) {
  check(rank_ >= 0 && rank_ < world(),
        "rank " + std::to_string(rank_) + " is not in a group of " + std::to_string(world()));
  for (int rank = 0; rank < world(); ++rank) numbers_.push_back(setup.global(first_rank + rank));
  open_segment(setup);
  base_ = mapping_->data();
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
  memory_ = {};  // the descriptor is closed, because all ranks have mapped the segment
  dead_peers();  // process file descriptors are opened now, because a process id may be reused after a rank's death
  crowded_ = !has_core_per_rank();
}

HostGroup::~HostGroup() { leave(); }

}  // namespace dpbench::shm
