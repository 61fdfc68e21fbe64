#include "harness/worker/rank/variables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "harness/report/record/case.h"
#include "harness/report/record/protocol.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace {

std::string text(const char* name, const char* fallback = "") {
  const char* value = std::getenv(name);
  return value ? value : fallback;
}

int number(const char* name, std::optional<int> fallback, int low, int high) {
  const std::string value = text(name);
  if (value.empty() && fallback) return *fallback;
  const auto parsed = parse_number<int>(value);
  if (!parsed || *parsed < low || *parsed > high)
    throw UsageError(std::string(name) + "='" + value + "' must be a whole number from " + std::to_string(low) +
                     " to " + std::to_string(high));
  return *parsed;
}

std::vector<std::string> split(const std::string& joined, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0; from < joined.size();) {
    const size_t to = std::min(joined.find(separator, from), joined.size());
    if (to > from) parts.push_back(joined.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

std::vector<int> core_list(const std::string& joined) {
  std::vector<int> cores;
  for (const auto& part : split(joined, ',')) cores.push_back(std::atoi(part.c_str()));
  return cores;
}

ProcessSettings process_settings() {
  if (const std::string given = text("DPBENCH_SETTINGS"); !given.empty())
    return process_settings_from_json(parse_json(given, "DPBENCH_SETTINGS"), "DPBENCH_SETTINGS");
  return {.backend = text("DPBENCH_BACKEND", no_backend),
          .device = parse_name<Device>(text("DPBENCH_DEVICE", "cpu")).value_or(Device::cpu),
          .threads = number("DPBENCH_THREADS", 1, 1, 4096),
          .runtime = parse_name<Runtime>(text("DPBENCH_RUNTIME", "fast")).value_or(Runtime::fast)};
}

}  // namespace

Variables read_variables() {
  constexpr int most_ranks = 1024;
  Variables v;
  static_cast<ProcessSettings&>(v) = process_settings();
  v.world = number("WORLD_SIZE", 1, 1, most_ranks);
  v.rank = number("RANK", 0, 0, v.world - 1);
  v.local_world = number("LOCAL_WORLD_SIZE", v.world, 1, v.world);
  v.local_rank = number("LOCAL_RANK", v.rank, 0, v.local_world - 1);
  v.channel = number("DPBENCH_FD", std::nullopt, 3, 1 << 20);
  v.timeout = std::chrono::seconds(number("DPBENCH_TIMEOUT_S", 30, 1, 1 << 20));
  v.run_dir = text("DPBENCH_RUN_DIR");
  if (v.run_dir.empty()) throw UsageError("DPBENCH_RUN_DIR is not set. Start workers with dpbench, not by hand.");
  v.group = text("DPBENCH_GROUP", "group");
  v.nonce = text("DPBENCH_NONCE", "by-hand");
  v.progress_file = text("DPBENCH_PROGRESS");
  v.rendezvous = parse_rendezvous(text("DPBENCH_STORE"), text("DPBENCH_NONCE"));
  v.serves = text("DPBENCH_SERVES") == "1";
  v.plugins = split(text("DPBENCH_PLUGINS"), ':');
  v.cores = core_list(text("DPBENCH_CORES"));
  return v;
}

}  // namespace dpbench
