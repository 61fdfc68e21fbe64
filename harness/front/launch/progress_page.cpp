#include "harness/front/launch/progress_page.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "harness/front/process/fd.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "processes share these counters");

// Appends the collective call stored in a slot of a rank's call log. Skips an empty slot and one that the rank is
// writing to.
void read_into(std::vector<RankCall>& calls, const CallSlot& slot) {
  const int64_t number = slot.number.load(std::memory_order_acquire);
  if (number == 0) return;
  const uint64_t group = slot.group.load(std::memory_order_acquire);
  const uint64_t hash = slot.hash.load(std::memory_order_acquire);
  const std::string text = load_text(slot.text);
  if (slot.number.load(std::memory_order_relaxed) != number) return;
  calls.push_back({number, hash, one_line(text, sizeof slot.text), group});
}

}  // namespace

ProgressPage::ProgressPage(const std::filesystem::path& file, int ranks)
    : file_(file), bytes_((sizeof(Progress) + sizeof(CallLog)) * ranks) {
  const Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  void* mapped = MAP_FAILED;
  // Allocate the space of the progress page's file now, so that a full file system is an error here instead of a SIGBUS
  // in a rank.
  if (fd && ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes_)) == 0)
    mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED)
    throw UsageError("cannot write " + file.string() + ": " + std::strerror(errno) + ". Set TMPDIR");
  page_ = static_cast<Progress*>(mapped);
  logs_ = reinterpret_cast<const CallLog*>(page_ + ranks);
}

ProgressPage::~ProgressPage() { ::munmap(page_, bytes_); }

RankState ProgressPage::read(int rank) const {
  std::vector<RankCall> calls;
  for (const CallSlot& slot : logs_[rank].slots) read_into(calls, slot);
  return {.step = page_[rank].step.load(std::memory_order_relaxed),
          .beat = page_[rank].beat.load(std::memory_order_relaxed),
          .collectives = page_[rank].collectives.load(std::memory_order_relaxed),
          .place = one_line(load_text(page_[rank].place), sizeof(Progress::place)),
          .calls = std::move(calls)};
}

}  // namespace dpbench
