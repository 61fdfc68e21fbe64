// How many cores others keep busy while a run measures: the busy time of the cores less that of our own processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

// Seconds of processor time since some beginning, of the cores that we may use.
struct CpuTimes {
  double wall_s = 0;
  double busy_s = 0;    // of all programs
  double stolen_s = 0;  // a virtual machine's cores had to wait for their host
  double ours_s = 0;    // a process with all it started, those that have ended too
};

// Of the files below root: proc/stat, and proc/PID/stat of `pid` and its descendants. Nothing where they cannot be
// read.
std::optional<CpuTimes> cpu_times(int pid, const std::vector<int>& cpus, double wall_s,
                                  const std::filesystem::path& root = "/");

// Of one case: which launches others disturbed, and the most that they took.
class OtherLoad {
 public:
  explicit OtherLoad(int cores = 0) : cores_(cores) {}
  void add(const CpuTimes& before, const CpuTimes& after);
  // Empty where no launch was disturbed.
  std::string warning() const;

 private:
  int cores_, launches_ = 0, disturbed_ = 0;
  double most_ = 0, most_stolen_ = 0;
};

}  // namespace dpbench
