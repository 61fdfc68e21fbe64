#include "harness/report/machine/environment.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "harness/report/machine/host.h"
#include "harness/report/machine/host_files.h"
#include "harness/report/record/codec.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

// Environment variables recorded in the env block because they affect a run's speed or behaviour. The list has no paths
// and nothing that could hold a secret.
constexpr std::array kept_variables = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                       "CUDA_DEVICE_ORDER",
                                       "CUDA_LAUNCH_BLOCKING",
                                       "CUDA_MODULE_LOADING",
                                       "CUDA_VISIBLE_DEVICES",
                                       "CUBLAS_WORKSPACE_CONFIG",
                                       "GLIBC_TUNABLES",
                                       "GLOO_DEVICE_TRANSPORT",
                                       "GLOO_SOCKET_IFNAME",
                                       "GOMP_CPU_AFFINITY",
                                       "GOMP_SPINCOUNT",
                                       "KMP_AFFINITY",
                                       "KMP_BLOCKTIME",
                                       "MALLOC_ARENA_MAX",
                                       "MALLOC_MMAP_THRESHOLD_",
                                       "MALLOC_TOP_PAD_",
                                       "MALLOC_TRIM_THRESHOLD_",
                                       "MKL_NUM_THREADS",
                                       "NCCL_ALGO",
                                       "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
                                       "NCCL_BUFFSIZE",
                                       "NCCL_CGA_CLUSTER_SIZE",
                                       "NCCL_COLLNET_ENABLE",
                                       "NCCL_CROSS_NIC",
                                       "NCCL_CUMEM_ENABLE",
                                       "NCCL_DEBUG",
                                       "NCCL_GRAPH_REGISTER",
                                       "NCCL_IB_DISABLE",
                                       "NCCL_LAUNCH_MODE",
                                       "NCCL_LOCAL_REGISTER",
                                       "NCCL_MAX_CTAS",
                                       "NCCL_MAX_NCHANNELS",
                                       "NCCL_MIN_CTAS",
                                       "NCCL_MIN_NCHANNELS",
                                       "NCCL_NTHREADS",
                                       "NCCL_NVLS_ENABLE",
                                       "NCCL_P2P_DISABLE",
                                       "NCCL_P2P_LEVEL",
                                       "NCCL_PROTO",
                                       "NCCL_SHM_DISABLE",
                                       "NCCL_SOCKET_IFNAME",
                                       "NCCL_SOCKET_NTHREADS",
                                       "NCCL_NSOCKS_PERTHREAD",
                                       "OMP_DYNAMIC",
                                       "OMP_NUM_THREADS",
                                       "OMP_PLACES",
                                       "OMP_PROC_BIND",
                                       "OMP_SCHEDULE",
                                       "OMP_WAIT_POLICY",
                                       "PYTORCH_CUDA_ALLOC_CONF",
                                       "PYTORCH_ALLOC_CONF",
                                       "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                       "TORCH_CPP_LOG_LEVEL",
                                       "TORCH_DISTRIBUTED_DEBUG",
                                       "TORCH_NCCL_AVOID_RECORD_STREAMS",
                                       "TORCH_NCCL_BLOCKING_WAIT",
                                       "TORCH_NCCL_CUDA_EVENT_CACHE",
                                       "TORCH_NCCL_HIGH_PRIORITY",
                                       "TORCH_SHOW_DISPATCH_TRACE",
                                       "DNNL_MAX_CPU_ISA",
                                       "ONEDNN_MAX_CPU_ISA",
                                       "ATEN_CPU_CAPABILITY"};

// Returns the recorded environment variables in the order of kept_variables, because the machine's fingerprint depends
// on the order.
Json kept_of(const std::map<std::string, std::string>& variables) {
  Json json = Json::object();
  for (const char* name : kept_variables)
    if (const auto found = variables.find(name); found != variables.end()) json[name] = found->second;
  return json;
}

// Reduces a text to letters, digits and single dashes, for use in the name of a run directory.
std::string as_word(const std::string& text) {
  std::string word;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      word += c;
    else if (!word.empty() && word.back() != '-')
      word += '-';
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word;
}

// Shortens a CPU or GPU model name for a run id: "AMD EPYC 9654 96-Core Processor" -> "AMD-EPYC-9654", "NVIDIA H200" ->
// "H200".
std::string short_model(const std::string& model) {
  std::string text = model;
  for (const char* noise : {"NVIDIA ", "(R)", "(TM)", " CPU", " Processor"})
    for (size_t at; (at = text.find(noise)) != std::string::npos;) text.erase(at, std::strlen(noise));
  return as_word(text.substr(0, text.find('@'))).substr(0, 32);
}

}  // namespace

Sources this_machine() {
  Sources sources;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) sources.affinity.push_back(cpu);
  for (char** entry = environ; *entry; ++entry)
    if (const char* equals = std::strchr(*entry, '='))
      sources.variables[std::string(static_cast<const char*>(*entry), equals)] = equals + 1;
  return sources;
}

Json environment(const Sources& sources, const Accelerators& accelerators, const Versions& versions) {
  Json env = write_value(EnvBlock{.cpu = cpu_block(sources),
                                  .memory = memory_block(sources),
                                  .limits = limits_block(sources),
                                  .os = os_block(sources),
                                  .load = load_block(sources),
                                  .gpus = accelerators.gpus,
                                  .gpu_links = accelerators.links,
                                  .driver = {accelerators.driver, accelerators.cuda_driver},
                                  .versions = versions});
  env["variables"] = kept_of(sources.variables);
  env["fingerprint"] = fingerprint(env);
  return env;
}

EnvBlock read_env(const Json& env) { return read_value<EnvBlock>(env, "env"); }
Json to_json(const LaunchedHost& host) { return write_value(host); }
LaunchedHost launched_host_from_json(const Json& json) { return read_value<LaunchedHost>(json, "host"); }

void set_loaded_versions(Json& env, const std::map<std::string, std::string>& loaded) {
  for (const auto& [name, version] : loaded)
    if (env["versions"].contains(name)) env["versions"][name] = version;
}

const std::vector<std::string>& comparable_fields() {
  static const std::vector<std::string> fields = {"/cpu/model",     "/cpu/family_model_stepping",
                                                  "/cpu/usable",    "/cpu/smt",
                                                  "/cpu/governor",  "/cpu/flags",
                                                  "/limits/cpus",   "/os/virtual",
                                                  "/gpus/*/name",   "/gpus/*/memory_bytes",
                                                  "/gpus/*/ecc",    "/gpus/*/power_limit_w",
                                                  "/gpus/*/mig",    "/gpu_links",
                                                  "/driver/nvidia", "/variables"};
  return fields;
}

Json field_of(const Json& env, const std::string& field) {
  const size_t star = field.find("/*");
  const Json::json_pointer at(field.substr(0, star));
  Json value = env.contains(at) ? env.at(at) : Json(nullptr);
  if (star == std::string::npos || !value.is_array()) return value;
  Json values = Json::array();
  for (const Json& item : value) values.push_back(field_of(item, field.substr(star + 2)));
  return values;
}

std::string fingerprint(const Json& env) {
  std::string text;
  for (const std::string& field : comparable_fields()) text += field + "=" + field_of(env, field).dump() + "\n";
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(fnv1a(text)));
  return std::string(hex.data(), 8);
}

std::string machine_label(const Json& env) {
  const Json gpus = field_of(env, "/gpus/*/name"), model = field_of(env, "/cpu/model");
  const bool cuda = gpus.is_array() && !gpus.empty() && gpus[0].is_string();
  const std::string count = cuda ? std::to_string(gpus.size()) : field_of(env, "/cpu/usable").dump();
  std::string name = short_model(cuda ? gpus[0].get<std::string>() : model.is_string() ? model.get<std::string>() : "");
  return count + "x" + (name.empty() ? "cpu" : name) + "-" + fingerprint(env).substr(0, 4);
}

std::vector<std::string> host_differences(const Json& env) {
  std::vector<std::string> warnings;
  const Json hosts = env.value("hosts", Json::array());
  for (const Json& host : hosts) {
    if (host.at("fingerprint") == hosts[0].at("fingerprint")) continue;
    std::string differs;
    for (const char* field : {"cpu", "cores", "gpus"})
      if (const Json first = hosts[0].value(field, Json()), other = host.value(field, Json()); first != other)
        differs += std::string(differs.empty() ? "" : "; ") + field + " " + first.dump() + " and " + other.dump();
    warnings.push_back("the hosts " + hosts[0].at("name").get<std::string>() + " and " +
                       host.at("name").get<std::string>() + " differ (" +
                       (differs.empty() ? "system, driver or clocks" : differs) +
                       "): the slowest sets the time of every step");
  }
  return warnings;
}

std::string varying_governor(const Json& env) {
  const Json governor = field_of(env, "/cpu/governor");
  return governor.is_string() && governor != "performance" ? governor.get<std::string>() : "";
}

std::string load_warning(const Json& env) {
  const Json load = field_of(env, "/load/minutes_1"), usable = field_of(env, "/cpu/usable");
  if (!load.is_number() || !usable.is_number() || load.get<double>() <= 0.5 * usable.get<double>()) return "";
  return "other work is running (load " + load.dump() + " on " + usable.dump() + " cores): stop it or expect noise";
}

std::vector<std::string> environment_warnings(const Json& env) {
  std::vector<std::string> warnings = host_differences(env);
  if (const std::string governor = varying_governor(env); !governor.empty())
    warnings.push_back("CPU governor is " + governor + ": run cpupower frequency-set -g performance");
  if (const std::string load = load_warning(env); !load.empty()) warnings.push_back(load);
  const Json limit = field_of(env, "/limits/cpus"), usable = field_of(env, "/cpu/usable");
  if (limit.is_number() && usable.is_number() && limit.get<double>() < usable.get<double>())
    warnings.push_back("a cgroup limits this to " + limit.dump() + " of " + usable.dump() +
                       " cores: threads will be throttled in mid-step; raise the limit or pin with taskset");
  for (const Json& gpu : env.value("gpus", Json::array()))
    if (gpu.value("throttled", Json()) == true)
      warnings.push_back(gpu["name"].get<std::string>() + " is throttled: let it cool");
  return warnings;
}

}  // namespace dpbench
