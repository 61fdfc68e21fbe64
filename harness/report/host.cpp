#include "harness/report/host.h"

#include <gnu/libc-version.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

#include "harness/report/fields.h"
#include "harness/report/host_files.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

constexpr std::array kept_flags = {"avx", "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "asimd", "sve"};

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

Json caches(const fs::path& cpu) {
  Json list = Json::array();
  for (int index = 0;; ++index) {
    const fs::path cache = cpu / "cache" / ("index" + std::to_string(index));
    const auto size = read_small(cache / "size");
    if (!size) return list;
    list.push_back({{"level", std::atoi(read_small(cache / "level").value_or("0").c_str())},
                    {"type", text_or_null(read_small(cache / "type"))},
                    {"bytes", or_null(bytes_of_size(*size))},
                    {"shared_by", count_of_ranges(read_small(cache / "shared_cpu_list").value_or("0"))}});
  }
}

// x86 lists its flags as "flags", Arm as "Features".
std::set<std::string> flags_of(const std::string& cpuinfo) {
  std::istringstream words(line_value(cpuinfo, "flags").value_or(line_value(cpuinfo, "Features").value_or("")));
  return {std::istream_iterator<std::string>(words), {}};
}

Json kept_of(const std::set<std::string>& flags) {
  Json kept = Json::array();
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

// Whole CPUs that a cgroup (version 2, else 1) allows, as "1.5"; null for no limit.
Json cgroup_cpus(const fs::path& cgroup) {
  double quota = 0, period = 0;
  if (const auto both = read_small(cgroup / "cpu.max")) {
    if (std::sscanf(both->c_str(), "%lf %lf", &quota, &period) != 2) return nullptr;
  } else {
    quota = std::atof(read_small(cgroup / "cpu/cpu.cfs_quota_us").value_or("-1").c_str());
    period = std::atof(read_small(cgroup / "cpu/cpu.cfs_period_us").value_or("0").c_str());
  }
  return quota > 0 && period > 0 ? Json(quota / period) : Json(nullptr);
}

Json cgroup_memory(const fs::path& cgroup) {
  for (const char* file : {"memory.max", "memory/memory.limit_in_bytes"})
    if (const auto text = read_small(cgroup / file)) {
      const auto bytes = bytes_of_size(*text);
      return bytes && *bytes < (int64_t{1} << 60) ? Json(*bytes)
                                                  : Json(nullptr);  // version 1 writes a huge number for none
    }
  return nullptr;
}

Json memory_bytes(const std::string& meminfo, const char* key) {
  const auto text = line_value(meminfo, key);
  return text ? or_null(bytes_of_size(*text)) : Json(nullptr);
}

Json container_of(const fs::path& root) {
  if (fs::exists(root / ".dockerenv")) return "docker";
  if (fs::exists(root / "run/.containerenv")) return "podman";
  return text_or_null(read_small(root / "run/systemd/container"));
}

}  // namespace

Json cpu_block(const Sources& sources) {
  const fs::path devices = sources.root / "sys/devices/system";
  const std::string info = read_small(sources.root / "proc/cpuinfo").value_or("");
  const fs::path cpu0 = devices / "cpu/cpu0";
  const auto smt = read_small(devices / "cpu/smt/active");
  const auto max_khz = read_small(cpu0 / "cpufreq/cpuinfo_max_freq");
  return {{"model", text_or_null(line_value(info, "model name"))},
          {"vendor", text_or_null(line_value(info, "vendor_id"))},
          {"family_model_stepping", numbers_of(info)},
          {"microcode", text_or_null(line_value(info, "microcode"))},
          {"online", count_of_ranges(read_small(devices / "cpu/online").value_or("0"))},
          {"usable", sources.affinity.size()},
          {"affinity", ranges_of(sources.affinity)},
          {"smt", smt ? Json(*smt == "1") : Json(nullptr)},
          {"numa_nodes", count_of_ranges(read_small(devices / "node/online").value_or("0"))},
          {"governor", text_or_null(read_small(cpu0 / "cpufreq/scaling_governor"))},
          {"max_mhz", max_khz ? Json(std::atoll(max_khz->c_str()) / 1000) : Json(nullptr)},
          {"flags", kept_of(flags_of(info))},
          {"caches", caches(cpu0)}};
}

Json os_block(const Sources& sources) {
  const fs::path& root = sources.root;
  const std::string release = read_small(root / "etc/os-release").value_or("");
  const std::string info = read_small(root / "proc/cpuinfo").value_or("");
  return {{"kernel", text_or_null(read_small(root / "proc/sys/kernel/osrelease"))},
          {"distribution", text_or_null(line_value(release, "PRETTY_NAME"))},
          {"libc", gnu_get_libc_version()},
          {"container", container_of(root)},
          {"virtual", flags_of(info).contains("hypervisor")},
          {"transparent_hugepages", text_or_null(read_small(root / "sys/kernel/mm/transparent_hugepage/enabled"))}};
}

Json memory_block(const Sources& sources) {
  const std::string info = read_small(sources.root / "proc/meminfo").value_or("");
  return {{"total_bytes", memory_bytes(info, "MemTotal")},
          {"available_bytes", memory_bytes(info, "MemAvailable")},
          {"swap_bytes", memory_bytes(info, "SwapTotal")}};
}

Json limits_block(const Sources& sources) {
  const fs::path cgroup = sources.root / "sys/fs/cgroup";
  return {{"cpus", cgroup_cpus(cgroup)}, {"memory_bytes", cgroup_memory(cgroup)}};
}

Json load_block(const Sources& sources) {
  double one = 0, five = 0, fifteen = 0;
  const std::string text = read_small(sources.root / "proc/loadavg").value_or("");
  if (std::sscanf(text.c_str(), "%lf %lf %lf", &one, &five, &fifteen) != 3) return nullptr;
  return {{"minutes_1", one}, {"minutes_5", five}, {"minutes_15", fifteen}};
}

}  // namespace dpbench
