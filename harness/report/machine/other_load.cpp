#include "harness/report/machine/other_load.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "harness/report/machine/host_files.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

struct ProcessTimes {
  int parent = 0;
  double ticks = 0;  // CPU time in clock ticks, with that of children that ended and were waited for
};

// Reads a process's CPU times from /proc/PID/stat, "pid (name) state ppid ...". Fields 14 to 17 are utime to cstime;
// the name may contain any character.
std::optional<ProcessTimes> process_times(const fs::path& file) {
  const std::string text = read_small(file).value_or("");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessTimes process;
  std::string skipped;
  fields >> skipped >> process.parent;
  for (int field = 5; field < 14; ++field) fields >> skipped;
  for (int field = 14; field <= 17; ++field) {
    double ticks = 0;
    fields >> ticks;
    process.ticks += ticks;
  }
  return fields ? std::optional(process) : std::nullopt;
}

std::map<int, ProcessTimes> all_processes(const fs::path& proc) {
  std::map<int, ProcessTimes> all;
  std::error_code error;
  for (fs::directory_iterator at(proc, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (const auto process = process_times(at->path() / "stat")) all[std::stoi(name)] = *process;
  }
  return all;
}

bool descends(int pid, int ancestor, const std::map<int, ProcessTimes>& all) {
  for (size_t steps = 0; steps <= all.size(); ++steps) {
    if (pid == ancestor) return true;
    const auto found = all.find(pid);
    if (found == all.end()) return false;
    pid = found->second.parent;
  }
  return false;
}

// Adds the times of the given CPUs from /proc/stat. Line format: "cpu3 user nice system idle iowait irq softirq steal
// ..."; user includes guest time.
void add_cores(const std::string& stat, const std::vector<int>& cpus, double ticks_per_s, CpuTimes& times) {
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    int cpu = 0;
    if (std::sscanf(line.c_str(), "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &user, &nice, &system, &idle, &iowait,
                    &irq, &softirq, &steal) < 8)
      continue;
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) continue;
    times.busy_s += (user + nice + system + irq + softirq) / ticks_per_s;
    times.stolen_s += steal / ticks_per_s;
  }
}

constexpr double least_wall_s = 0.2;  // shortest interval for which a load is computed: 20 ticks of 10 ms

}  // namespace

std::optional<CpuTimes> cpu_times(int pid, const std::vector<int>& cpus, double wall_s, const fs::path& root) {
  const auto stat = read_small(root / "proc/stat");
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (!stat || ticks_per_s <= 0) return std::nullopt;
  CpuTimes times{.wall_s = wall_s};
  add_cores(*stat, cpus, ticks_per_s, times);
  const auto all = all_processes(root / "proc");
  if (!all.contains(pid)) return std::nullopt;
  for (const auto& [id, process] : all)
    if (descends(id, pid, all)) times.ours_s += process.ticks / ticks_per_s;
  return times;
}

std::optional<OtherLoad> load_between(const CpuTimes& before, const CpuTimes& after) {
  const double wall = after.wall_s - before.wall_s;
  if (wall < least_wall_s) return std::nullopt;
  const double others = after.busy_s - before.busy_s - (after.ours_s - before.ours_s);
  return OtherLoad{.programs = std::max(0.0, others / wall),
                   .host = std::max(0.0, (after.stolen_s - before.stolen_s) / wall)};
}

LoadWatch::LoadWatch(ReadCpuTimes read) : read_(std::move(read)) {
  if (read_) begin_ = read_();
}

std::optional<OtherLoad> LoadWatch::load() const {
  const auto now = begin_ ? read_() : std::nullopt;
  return now ? load_between(*begin_, *now) : std::nullopt;
}

}  // namespace dpbench
