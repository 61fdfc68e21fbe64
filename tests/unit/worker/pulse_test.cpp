// Pulse: writes the progress of a rank to the progress page, memory shared with the front (the dpbench process).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/worker/rank/pulse.h"

namespace dpbench {
namespace {

constexpr int kRanks = 2;

void note(Pulse& pulse, uint64_t number, const std::string& text) { pulse.note_call({.number = number, .text = text}); }

// A progress page for two ranks, as the front (the dpbench process) creates it. The page of an older front has no space
// for collective calls.
class WrittenProgressPage : public testing::Test {
 protected:
  ~WrittenProgressPage() override {
    if (mapped_) ::munmap(mapped_, bytes_);
    std::filesystem::remove(file_);
  }
  void make(size_t bytes) {
    bytes_ = bytes;
    std::ofstream(file_).put('\0');
    std::filesystem::resize_file(file_, bytes);
    const int file = ::open(file_.c_str(), O_RDWR | O_CLOEXEC);
    mapped_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    ASSERT_NE(mapped_, MAP_FAILED);
  }
  const Progress& progress(int rank) const { return static_cast<const Progress*>(mapped_)[rank]; }
  const CallLog& log(int rank) const { return reinterpret_cast<const CallLog*>(&progress(kRanks))[rank]; }

  const std::string file_ = testing::TempDir() + "dpbench_pulse_" + std::to_string(::getpid());
  size_t bytes_ = 0;
  void* mapped_ = nullptr;
};

TEST_F(WrittenProgressPage, HoldsTheLatestCollectivesInARingBuffer) {
  make(kRanks * (sizeof(Progress) + sizeof(CallLog)));
  Pulse pulse(file_, 1, kRanks);
  for (uint64_t number = 1; number <= 11; ++number)
    note(pulse, number, "allreduce of " + std::to_string(number) + " Float (sum)");
  note(pulse, 12, std::string(200, 'x'));
  const auto& slots = log(1).slots;
  EXPECT_EQ(slots[10 % slots.size()].number.load(), 11);
  EXPECT_EQ(load_text(slots[10 % slots.size()].text), "allreduce of 11 Float (sum)");
  EXPECT_EQ(load_text(slots[11 % slots.size()].text), std::string(40, 'x')) << "truncated to the slot";
  EXPECT_EQ(slots[3].number.load(), 12) << "overwrites the oldest call";
  EXPECT_EQ(log(0).slots[3].number.load(), 0) << "belongs to another rank";
  EXPECT_EQ(slots[3].hash.load(), pulse.calls()[0].hash);
  EXPECT_EQ(pulse.calls()[0].count, 12);
}

TEST_F(WrittenProgressPage, CountsCollectivesEvenWithoutSpaceToLogThem) {
  make(kRanks * sizeof(Progress));
  Pulse pulse(file_, 1, kRanks);
  note(pulse, 1, "barrier");
  pulse.begin();
  EXPECT_EQ(progress(1).beat.load(), 1);
  EXPECT_EQ(pulse.calls()[0].count, 1) << "the answer still needs the count";
}

TEST_F(WrittenProgressPage, ShowsAHeartbeatOnlyIfTheCpuTimeOfTheChecksHasGrown) {
  make(kRanks * sizeof(Progress));
  std::atomic<int> polls = 0;
  std::atomic<int64_t> ns = 0;
  Pulse pulse(file_, 1, kRanks);
  pulse.follow({}, [&] { return ++polls, ns.load(); });
  const auto wait_for_polls = [&](int more) {
    for (const int until = polls + more; polls < until;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_for_polls(3);
  EXPECT_EQ(progress(1).beat.load(), 0);
  ns = 1;
  wait_for_polls(3);
  EXPECT_EQ(progress(1).beat.load(), 1);
}

TEST(Pulse, HashOfARanksCollectivesDependsOnEachCallAndTheirOrder) {
  const auto hash_of = [](const std::vector<std::string>& calls) {
    Pulse pulse("", 0);
    note(pulse, 1, "a call of the checks");
    pulse.forget_calls();
    for (size_t i = 0; i < calls.size(); ++i) note(pulse, i, calls[i]);
    return pulse.calls()[0].hash;
  };
  EXPECT_EQ(hash_of({"barrier", "allreduce"}), hash_of({"barrier", "allreduce"}));
  EXPECT_NE(hash_of({"barrier", "allreduce"}), hash_of({"allreduce", "barrier"}));
  EXPECT_NE(hash_of({"barrier", "allreduce"}), hash_of({"allreduce"}));
  EXPECT_NE(hash_of({"ab", "c"}), hash_of({"a", "bc"}));
  EXPECT_EQ(hash_of({}), 0U);
}

TEST_F(WrittenProgressPage, HoldsThePartOfTheChecksThatRunsAndThenTheActionOfAStep) {
  make(kRanks * sizeof(Progress));
  Pulse pulse(file_, 1, kRanks);
  Phases phases;
  pulse.publish_actions(phases);
  pulse.place("step 1 of scenario even");
  EXPECT_EQ(progress(1).step.load(), Progress::in_checks);
  EXPECT_EQ(load_text(progress(1).place), "step 1 of scenario even");
  pulse.place("");
  EXPECT_EQ(progress(1).step.load(), 0);
  pulse.step();
  phases.name_action("0F3 (stage 0, micro-batch 3)");
  EXPECT_EQ(progress(1).step.load(), 1);
  EXPECT_EQ(load_text(progress(1).place), "0F3 (stage 0, micro-batch 3)");
  pulse.begin();
  EXPECT_EQ(load_text(progress(1).place), "");
  EXPECT_EQ(progress(1).step.load(), 0);
}

TEST_F(WrittenProgressPage, KeepsTheCollectivesOfEachGroupApart) {
  make(kRanks * (sizeof(Progress) + sizeof(CallLog)));
  Pulse pulse(file_, 1, kRanks), alone("", 0);
  pulse.note_call({.number = 1, .text = "barrier", .group = "dp=2,tp=2/dp/0"});
  pulse.note_call({.number = 1, .text = "allreduce", .group = "dp=2,tp=2/tp/1"});
  pulse.note_call({.number = 2, .text = "broadcast", .group = "dp=2,tp=2/dp/0"});
  note(pulse, 1, "barrier");
  note(alone, 1, "barrier");
  const auto& slots = log(1).slots;
  EXPECT_EQ(slots[0].group.load(), slots[2].group.load());
  EXPECT_NE(slots[0].group.load(), slots[1].group.load());
  EXPECT_EQ(slots[3].group.load(), 0U) << "all ranks";
  EXPECT_EQ(load_text(slots[1].text), "allreduce");
  EXPECT_EQ(slots[2].hash.load(), pulse.calls()[slots[0].group].hash);
  EXPECT_EQ(pulse.calls()[slots[0].group].count, 2);
  EXPECT_EQ(pulse.calls()[0], alone.calls()[0]);
}

}  // namespace
}  // namespace dpbench
