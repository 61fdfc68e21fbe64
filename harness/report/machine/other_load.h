// Measures the load of other programs during a run: the busy time of the cores minus the CPU time of dpbench's own
// processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

// CPU time of the usable cores, in seconds since an arbitrary start.
struct CpuTimes {
  double wall_s = 0;
  double busy_s = 0;    // CPU time of all programs
  double stolen_s = 0;  // steal time, in which a virtual machine's cores waited for the host
  double ours_s = 0;    // CPU time of dpbench and its descendants, including ended ones
};

// Reads the cores' times from proc/stat, and the times of process `pid` and its descendants from proc/PID/stat, below
// root. Returns nullopt if the files cannot be read.
std::optional<CpuTimes> cpu_times(int pid, const std::vector<int>& cpus, double wall_s,
                                  const std::filesystem::path& root = "/");

// Counts the launches (starts of the processes) of one case during which other programs took CPU time, and keeps the
// highest load of other programs.
class OtherLoad {
 public:
  explicit OtherLoad(int cores = 0) : cores_(cores) {}
  void add(const CpuTimes& before, const CpuTimes& after);
  // Returns a warning about the load of other programs, or an empty string if no launch was disturbed.
  std::string warning() const;

 private:
  int cores_, launches_ = 0, disturbed_ = 0;
  double most_ = 0, most_stolen_ = 0;
};

}  // namespace dpbench
