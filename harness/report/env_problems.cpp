#include "harness/report/env_problems.h"

#include <algorithm>

namespace dpbench {
namespace {

bool is_text(const Json& value) { return value.is_string(); }
bool is_text_or_null(const Json& value) { return value.is_null() || value.is_string(); }
bool is_texts(const Json& value) { return value.is_array() && std::all_of(value.begin(), value.end(), is_text); }
bool is_count(const Json& value) { return value.is_number_integer() && (value.is_number_unsigned() || value >= 0); }
bool is_count_or_null(const Json& value) { return value.is_null() || is_count(value); }
bool is_integer_or_null(const Json& value) { return value.is_null() || value.is_number_integer(); }
bool is_flag(const Json& value) { return value.is_boolean(); }
bool is_flag_or_null(const Json& value) { return value.is_null() || value.is_boolean(); }
bool is_load(const Json& value) { return value.is_number() && value >= 0; }
bool is_share_or_null(const Json& value) { return value.is_null() || (value.is_number() && value > 0); }
bool is_list(const Json& value) { return value.is_array(); }
bool is_block(const Json& value) { return value.is_object(); }
bool is_block_or_null(const Json& value) { return value.is_null() || value.is_object(); }
bool is_texts_by_name(const Json& value) {
  return value.is_object() && std::all_of(value.begin(), value.end(), is_text);
}
bool is_table_of_texts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_texts);
}
bool is_ranks(const Json& value) { return value.is_array() && std::all_of(value.begin(), value.end(), is_count); }
bool is_fingerprint(const Json& value) {
  if (!value.is_string()) return false;
  const auto hex = value.get<std::string>();
  return hex.size() == 8 && hex.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct EnvKey {
  const char* name;
  bool (*holds)(const Json&);
  const char* what;
  bool always_there = false;
};
constexpr bool always = true;

const std::vector<EnvKey> env_keys = {{"fingerprint", is_fingerprint, "8 hex digits", always},
                                   {"cpu", is_block, "an object", always},
                                   {"memory", is_block, "an object", always},
                                   {"limits", is_block, "an object", always},
                                   {"os", is_block, "an object", always},
                                   {"load", is_block_or_null, "an object or null", always},
                                   {"gpus", is_list, "a list", always},
                                   {"driver", is_block, "an object", always},
                                   {"versions", is_block, "an object", always},
                                   {"variables", is_texts_by_name, "texts by their names", always},
                                   {"gpu_links", is_table_of_texts, "rows of texts"},
                                   {"warnings", is_texts, "texts"},
                                   {"hosts", is_list, "a list"}};
const std::vector<EnvKey> cpu_keys = {{"model", is_text_or_null, "a text or null", always},
                                   {"usable", is_count, "a count", always},
                                   {"caches", is_list, "a list", always},
                                   {"vendor", is_text_or_null, "a text or null"},
                                   {"family_model_stepping", is_text, "a text"},
                                   {"microcode", is_text_or_null, "a text or null"},
                                   {"online", is_count, "a count"},
                                   {"affinity", is_text, "a text"},
                                   {"smt", is_flag_or_null, "true, false or null"},
                                   {"numa_nodes", is_count, "a count"},
                                   {"governor", is_text_or_null, "a text or null"},
                                   {"max_mhz", is_count_or_null, "a count or null"},
                                   {"flags", is_texts, "texts"}};
const std::vector<EnvKey> cache_keys = {{"level", is_count, "a count", always},
                                     {"type", is_text_or_null, "a text or null", always},
                                     {"bytes", is_count_or_null, "a count or null", always},
                                     {"shared_by", is_count, "a count", always}};
const std::vector<EnvKey> memory_keys = {{"total_bytes", is_count_or_null, "a count or null"},
                                      {"available_bytes", is_count_or_null, "a count or null"},
                                      {"swap_bytes", is_count_or_null, "a count or null"}};
const std::vector<EnvKey> limit_keys = {{"cpus", is_share_or_null, "above 0 or null"},
                                     {"memory_bytes", is_count_or_null, "a count or null"}};
const std::vector<EnvKey> os_keys = {{"kernel", is_text_or_null, "a text or null"},
                                  {"distribution", is_text_or_null, "a text or null"},
                                  {"libc", is_text, "a text"},
                                  {"container", is_text_or_null, "a text or null"},
                                  {"virtual", is_flag, "true or false"},
                                  {"transparent_hugepages", is_text_or_null, "a text or null"}};
const std::vector<EnvKey> load_keys = {{"minutes_1", is_load, "0 or more"},
                                    {"minutes_5", is_load, "0 or more"},
                                    {"minutes_15", is_load, "0 or more"}};
const std::vector<EnvKey> gpu_keys = {{"name", is_text, "a text", always},
                                   {"memory_bytes", is_count, "a count", always},
                                   {"uuid", is_text_or_null, "a text or null"},
                                   {"pci_bus", is_text_or_null, "a text or null"},
                                   {"sm_clock_mhz", is_count_or_null, "a count or null"},
                                   {"max_sm_clock_mhz", is_count_or_null, "a count or null"},
                                   {"memory_clock_mhz", is_count_or_null, "a count or null"},
                                   {"temperature_c", is_integer_or_null, "an integer or null"},
                                   {"power_limit_w", is_count_or_null, "a count or null"},
                                   {"pcie_generation", is_count_or_null, "a count or null"},
                                   {"pcie_lanes", is_count_or_null, "a count or null"},
                                   {"ecc", is_flag_or_null, "true, false or null"},
                                   {"mig", is_flag_or_null, "true, false or null"},
                                   {"throttled", is_flag_or_null, "true, false or null"}};
const std::vector<EnvKey> driver_keys = {{"nvidia", is_text_or_null, "a text or null"},
                                      {"cuda", is_text_or_null, "a text or null"}};
const std::vector<EnvKey> version_keys = {{"torch", is_text_or_null, "a text or null"},
                                       {"cuda", is_text_or_null, "a text or null"},
                                       {"nccl", is_text_or_null, "a text or null"},
                                       {"cuda_loaded", is_text_or_null, "a text or null"},
                                       {"nccl_loaded", is_text_or_null, "a text or null"}};
const std::vector<EnvKey> host_keys = {{"name", is_text, "a text", always},
                                    {"ranks", is_ranks, "a list of ranks", always},
                                    {"fingerprint", is_text, "a text", always},
                                    {"cpu", is_text_or_null, "a text or null"},
                                    {"cores", is_count_or_null, "a count or null"},
                                    {"memory_bytes", is_count_or_null, "a count or null"},
                                    {"gpus", is_texts, "texts"}};

void look_at_block(const Json& block, const std::string& path, const std::vector<EnvKey>& keys,
                   std::vector<std::string>& found) {
  if (!block.is_object()) return found.push_back(path + " is not an object");
  for (const EnvKey& key : keys) {
    const auto value = block.find(key.name);
    if (value == block.end()) {
      if (key.always_there) found.push_back(path + "." + key.name + " is missing");
    } else if (!key.holds(*value)) {
      found.push_back(path + "." + key.name + " is not " + key.what);
    }
  }
}

// Where the block itself stands as it should; if not, that was said.
void look_inside(const Json& parent, const char* name, const std::string& path, const std::vector<EnvKey>& keys,
                 std::vector<std::string>& found) {
  const auto block = parent.find(name);
  if (block == parent.end()) return;
  const std::string at = path + "." + name;
  if (block->is_object()) look_at_block(*block, at, keys, found);
  if (block->is_array())
    for (size_t i = 0; i < block->size(); ++i)
      look_at_block((*block)[i], at + "[" + std::to_string(i) + "]", keys, found);
}

}  // namespace

std::vector<std::string> env_problems(const Json& env) {
  std::vector<std::string> found;
  look_at_block(env, "env", env_keys, found);
  look_inside(env, "cpu", "env", cpu_keys, found);
  if (const auto cpu = env.find("cpu"); cpu != env.end() && cpu->is_object())
    look_inside(*cpu, "caches", "env.cpu", cache_keys, found);
  look_inside(env, "memory", "env", memory_keys, found);
  look_inside(env, "limits", "env", limit_keys, found);
  look_inside(env, "os", "env", os_keys, found);
  look_inside(env, "load", "env", load_keys, found);
  look_inside(env, "gpus", "env", gpu_keys, found);
  look_inside(env, "driver", "env", driver_keys, found);
  look_inside(env, "versions", "env", version_keys, found);
  look_inside(env, "hosts", "env", host_keys, found);
  return found;
}

}  // namespace dpbench
