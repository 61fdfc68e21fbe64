#include "strategies/comm/shm/mapped_segment.h"

#include <unistd.h>

#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>

#include <c10/util/StringUtil.h>

#include "workloads/base/error.h"

namespace dpbench::shm {
namespace {

constexpr const char* ticket_key = "shm-segment";

// Data that the first rank publishes in the store, so that the others can map the segment.
struct Ticket {
  pid_t pid = 0;
  int fd = -1;
  size_t bytes = 0;

  std::string text() const { return std::to_string(pid) + " " + std::to_string(fd) + " " + std::to_string(bytes); }
};

Ticket read_ticket(const BackendSetup& setup, int mine, int first) {
  try {
    setup.store->wait({ticket_key}, setup.timeout);
  } catch (const std::exception&) {
    throw std::runtime_error(c10::str("rank ", mine, " timed out waiting for rank ", first, " to create the group (",
                                      setup.timeout.count(), " ms)"));
  }
  Ticket ticket;
  std::istringstream text(setup.store->get_to_str(ticket_key));
  check(bool(text >> ticket.pid >> ticket.fd >> ticket.bytes), "the group's ticket cannot be read: " + text.str());
  return ticket;
}

// The mappings of shared memory that all ranks use if they are threads of this process. If each thread mapped the
// memory again at another address, ThreadSanitizer could not detect data races.
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
  // The mappings, by the file descriptor of their memory, which stays open until all ranks have joined.
  std::map<int, std::weak_ptr<Mapping>> mappings_;
};

SharedMappings& shared_mappings() {
  static SharedMappings mappings;
  return mappings;
}

}  // namespace

MappedSegment::MappedSegment(const BackendSetup& setup, Home home, const SegmentMap& map,
                             const std::vector<int>& numbers)
    : map_(map) {
  if (setup.local_rank == 0)
    create(setup, home);
  else
    open(setup, home, numbers);
  base_ = mapping_->data();
}

void MappedSegment::create(const BackendSetup& setup, Home home) {
  memory_ = create_memory("dpbench-group", map_.bytes());
  mapping_ = std::make_shared<Mapping>(memory_.get(), map_.bytes());
  new (mapping_->data()) Segment;
  for (int r = 0; r < map_.world; ++r) new (mapping_->data() + sizeof(Segment) + r * sizeof(Seat)) Seat;
  // The mailboxes need no constructor, because the memory is zeroed. A constructor would touch their pages and so
  // allocate all of them.
  if (home == Home::threads) shared_mappings().add(memory_.get(), mapping_);
  const std::string ticket = Ticket{getpid(), memory_.get(), map_.bytes()}.text();
  setup.store->set(ticket_key, std::vector<uint8_t>(ticket.begin(), ticket.end()));
}

void MappedSegment::open(const BackendSetup& setup, Home home, const std::vector<int>& numbers) {
  const int mine = numbers.at(static_cast<size_t>(setup.local_rank)), first = numbers.at(0);
  const Ticket ticket = read_ticket(setup, mine, first);
  check(ticket.bytes == map_.bytes(), c10::str("rank ", mine, " expects a different group size than rank ", first));
  if (home == Home::threads) {
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

}  // namespace dpbench::shm
