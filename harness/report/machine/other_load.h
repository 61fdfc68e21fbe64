// Measures the load of other programs during a run: the busy time of the cores minus the CPU time of dpbench's own
// processes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/case.h"

namespace dpbench {

// CPU time of the usable cores, in seconds since an arbitrary start.
struct CpuTimes {
  double wall_s = 0;
  double busy_s = 0;    // CPU time of all programs
  double stolen_s = 0;  // steal time, in which a virtual machine's cores waited for the host
  double ours_s = 0;    // CPU time of dpbench and its descendants, including ended ones
};

// Reads the times of the cores `cpus` from /proc/stat, and those of process `pid` and its descendants from
// /proc/PID/stat. root: the directory that holds proc. Returns nullopt if the files cannot be read.
std::optional<CpuTimes> cpu_times(int pid, const std::vector<int>& cpus, double wall_s,
                                  const std::filesystem::path& root = "/");

// Returns the mean load of other programs, and of a virtual machine's host, between two readings. Returns nullopt if
// the time between the readings is too short for the kernel's clock ticks.
std::optional<OtherLoad> load_between(const CpuTimes& before, const CpuTimes& after);

// A function that returns the current CPU times, or nullopt if they cannot be read. LoadWatch measures nothing if the
// function is empty.
using ReadCpuTimes = std::function<std::optional<CpuTimes>()>;

// Measures the load of other programs, and of a virtual machine's host, from its construction on.
class LoadWatch {
 public:
  explicit LoadWatch(ReadCpuTimes read);
  // Returns the mean load since construction; nullopt if it is unknown.
  std::optional<OtherLoad> load() const;

 private:
  ReadCpuTimes read_;
  std::optional<CpuTimes> begin_;
};

}  // namespace dpbench
