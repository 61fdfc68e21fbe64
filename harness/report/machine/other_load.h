// Measures the load of other programs during a run: the busy time of the cores minus that of our own processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

// CPU time of the usable cores, in seconds since an arbitrary start.
struct CpuTimes {
  double wall_s = 0;
  double busy_s = 0;    // all programs
  double stolen_s = 0;  // steal time: the cores of a virtual machine waited for the host
  double ours_s = 0;    // our process and its descendants, including ended ones
};

// Reads proc/stat, and proc/PID/stat of `pid` and its descendants, below root. Returns nullopt if they cannot be read.
std::optional<CpuTimes> cpu_times(int pid, const std::vector<int>& cpus, double wall_s,
                                  const std::filesystem::path& root = "/");

// Tracks the launches of one case that other programs disturbed, and the highest load.
class OtherLoad {
 public:
  explicit OtherLoad(int cores = 0) : cores_(cores) {}
  void add(const CpuTimes& before, const CpuTimes& after);
  // Returns an empty string if no launch was disturbed.
  std::string warning() const;

 private:
  int cores_, launches_ = 0, disturbed_ = 0;
  double most_ = 0, most_stolen_ = 0;
};

}  // namespace dpbench
