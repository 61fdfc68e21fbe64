#include "harness/report/machine/host.h"

#include <gnu/libc-version.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "harness/report/machine/host_files.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

constexpr std::array kept_flags = {"avx", "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "asimd", "sve"};

std::vector<CpuCache> caches(const fs::path& cpu) {
  std::vector<CpuCache> list;
  for (int index = 0;; ++index) {
    const fs::path cache = cpu / "cache" / ("index" + std::to_string(index));
    const auto size = read_small(cache / "size");
    if (!size) return list;
    list.push_back({.level = std::atoi(read_small(cache / "level").value_or("0").c_str()),
                    .type = read_small(cache / "type"),
                    .bytes = bytes_of_size(*size),
                    .shared_by = count_of_ranges(read_small(cache / "shared_cpu_list").value_or("0"))});
  }
}

// Returns the CPU's feature flags from /proc/cpuinfo. The line is called "flags" on x86 and "Features" on Arm.
std::set<std::string> flags_of(const std::string& cpuinfo) {
  std::istringstream words(line_value(cpuinfo, "flags").value_or(line_value(cpuinfo, "Features").value_or("")));
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> kept_of(const std::set<std::string>& flags) {
  std::vector<std::string> kept;
  for (const char* flag : kept_flags)
    if (flags.contains(flag)) kept.push_back(flag);
  return kept;
}

std::string numbers_of(const std::string& cpuinfo) {
  std::string numbers;
  for (const char* key : {"cpu family", "model", "stepping"}) {
    if (!numbers.empty()) numbers += '/';
    numbers += line_value(cpuinfo, key).value_or("?");
  }
  return numbers;
}

// Returns the CPU limit of the cgroup (version 2, else 1) in cores, e.g. 1.5; nullopt if there is no limit.
std::optional<double> cgroup_cpus(const fs::path& cgroup) {
  double quota = 0, period = 0;
  if (const auto both = read_small(cgroup / "cpu.max")) {
    if (std::sscanf(both->c_str(), "%lf %lf", &quota, &period) != 2) return {};
  } else {
    quota = std::atof(read_small(cgroup / "cpu/cpu.cfs_quota_us").value_or("-1").c_str());
    period = std::atof(read_small(cgroup / "cpu/cpu.cfs_period_us").value_or("0").c_str());
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

CountOrNull cgroup_memory(const fs::path& cgroup) {
  // A limit above this means that there is none: cgroup version 1 then reports a huge number.
  constexpr int64_t no_limit = int64_t{1} << 60;
  for (const char* file : {"memory.max", "memory/memory.limit_in_bytes"})
    if (const auto text = read_small(cgroup / file)) {
      const auto bytes = bytes_of_size(*text);
      return bytes && *bytes < no_limit ? bytes : std::nullopt;
    }
  return {};
}

CountOrNull memory_bytes(const std::string& meminfo, const char* key) {
  const auto text = line_value(meminfo, key);
  return text ? bytes_of_size(*text) : std::nullopt;
}

TextOrNull container_of(const fs::path& root) {
  if (fs::exists(root / ".dockerenv")) return "docker";
  if (fs::exists(root / "run/.containerenv")) return "podman";
  return read_small(root / "run/systemd/container");
}

}  // namespace

CpuBlock cpu_block(const Sources& sources) {
  const fs::path devices = sources.root / "sys/devices/system";
  const std::string info = read_small(sources.root / "proc/cpuinfo").value_or("");
  const fs::path cpu0 = devices / "cpu/cpu0";
  const auto smt = read_small(devices / "cpu/smt/active");
  const auto max_khz = read_small(cpu0 / "cpufreq/cpuinfo_max_freq");
  return {.model = line_value(info, "model name"),
          .vendor = line_value(info, "vendor_id"),
          .family_model_stepping = numbers_of(info),
          .microcode = line_value(info, "microcode"),
          .online = count_of_ranges(read_small(devices / "cpu/online").value_or("0")),
          .usable = static_cast<int>(sources.affinity.size()),
          .affinity = ranges_of(sources.affinity),
          .smt = smt ? FlagOrNull(*smt == "1") : std::nullopt,
          .numa_nodes = count_of_ranges(read_small(devices / "node/online").value_or("0")),
          .governor = read_small(cpu0 / "cpufreq/scaling_governor"),
          .max_mhz = max_khz ? CountOrNull(std::atoll(max_khz->c_str()) / 1000) : std::nullopt,
          .flags = kept_of(flags_of(info)),
          .caches = caches(cpu0)};
}

OsBlock os_block(const Sources& sources) {
  const fs::path& root = sources.root;
  const std::string release = read_small(root / "etc/os-release").value_or("");
  const std::string info = read_small(root / "proc/cpuinfo").value_or("");
  return {.kernel = read_small(root / "proc/sys/kernel/osrelease"),
          .distribution = line_value(release, "PRETTY_NAME"),
          .libc = gnu_get_libc_version(),
          .container = container_of(root),
          .virtual_machine = flags_of(info).contains("hypervisor"),
          .transparent_hugepages = read_small(root / "sys/kernel/mm/transparent_hugepage/enabled")};
}

MemoryBlock memory_block(const Sources& sources) {
  const std::string info = read_small(sources.root / "proc/meminfo").value_or("");
  return {.total_bytes = memory_bytes(info, "MemTotal"),
          .available_bytes = memory_bytes(info, "MemAvailable"),
          .swap_bytes = memory_bytes(info, "SwapTotal")};
}

LimitsBlock limits_block(const Sources& sources) {
  const fs::path cgroup = sources.root / "sys/fs/cgroup";
  return {.cpus = cgroup_cpus(cgroup), .memory_bytes = cgroup_memory(cgroup)};
}

std::optional<LoadBlock> load_block(const Sources& sources) {
  LoadBlock load;
  const std::string text = read_small(sources.root / "proc/loadavg").value_or("");
  if (std::sscanf(text.c_str(), "%lf %lf %lf", &load.minutes_1, &load.minutes_5, &load.minutes_15) != 3) return {};
  return load;
}

}  // namespace dpbench
