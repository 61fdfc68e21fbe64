// The progress page: shared memory in which ranks write their progress, and which the front (the dpbench process)
// reads.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/front/launch/progress_page.h"
#include "tests/unit/front/launch_parts.h"

namespace dpbench {
namespace {

class ProgressPageTest : public TempDirTest {};

void write_call(CallLog& log, int64_t number, uint64_t hash, const std::string& text) {
  CallSlot& slot = log.slots[static_cast<size_t>(number) % log.slots.size()];
  store_text(slot.text, text);
  slot.hash = hash;
  slot.number = number;
}

TEST_F(ProgressPageTest, ReadsTheProgressAndCollectivesOfEachRank) {
  const ProgressPage page(root_ / "progress", 2);
  const int file = ::open((root_ / "progress").c_str(), O_RDWR | O_CLOEXEC);
  const size_t bytes = 2 * (sizeof(Progress) + sizeof(CallLog));
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* progress = static_cast<Progress*>(mapped);
  auto* logs = reinterpret_cast<CallLog*>(progress + 2);
  progress[1].step = 5;
  progress[1].collectives = 9;
  store_text(progress[1].place, "step 12 of scenario uneven-accumulate and more");
  write_call(logs[1], 8, 70, "barrier");
  write_call(logs[1], 9, ~uint64_t{0}, "allreduce of 12 Float (sum)");
  // the description of a collective is cut to 40 bytes, without a terminating zero
  write_call(logs[1], 10, 71, std::string(100, 'x'));
  logs[1].slots[2].group = 5;
  logs[1].slots[3].hash = 1;  // this entry has a hash but no call number yet: rank 1 is still writing it
  EXPECT_TRUE(page.read(0).calls.empty());
  const RankState state = page.read(1);
  EXPECT_EQ(state.step, 5);
  EXPECT_EQ(state.collectives, 9);
  EXPECT_EQ(state.place, "step 12 of scenario uneven-accumulate an") << "cut to 40 bytes";
  ASSERT_EQ(state.calls.size(), 3U);
  EXPECT_EQ(state.calls[0].number, 8);
  EXPECT_EQ(state.calls[0].text, "barrier");
  EXPECT_EQ(state.calls[1].number, 9);
  EXPECT_EQ(state.calls[1].hash, ~uint64_t{0});
  EXPECT_EQ(state.calls[1].text, "allreduce of 12 Float (sum)");
  EXPECT_EQ(state.calls[2].text, std::string(40, 'x'));
  EXPECT_EQ(state.calls[1].group, 0U);
  EXPECT_EQ(state.calls[2].group, 5U);
  ::munmap(mapped, bytes);
}

}  // namespace
}  // namespace dpbench
