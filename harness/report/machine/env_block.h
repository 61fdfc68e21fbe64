// The env block of a report: enough to explain why two runs differ. A fact that is not known is null.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"

namespace dpbench {

using TextOrNull = std::optional<std::string>;
using CountOrNull = std::optional<int64_t>;
using FlagOrNull = std::optional<bool>;

struct CpuCache {
  int level = 0;
  TextOrNull type{};
  CountOrNull bytes{};
  int shared_by = 0;
};
template <>
struct Table<CpuCache> {
  using C = CpuCache;
  static constexpr const char* name = "cache";
  static constexpr std::tuple fields{
      Field{"level", "number", &C::level, "1 is the nearest", range::not_negative},
      Field{"type", "-", &C::type, "Data, Instruction or Unified"},
      Field{"bytes", "bytes", &C::bytes, "its size", range::not_negative},
      Field{"shared_by", "logical processors", &C::shared_by, "that use it", range::not_negative}};
};

struct CpuBlock {
  TextOrNull model{}, vendor{};
  std::string family_model_stepping{};
  TextOrNull microcode{};
  int online = 0, usable = 0;
  std::string affinity{};
  FlagOrNull smt{};
  int numa_nodes = 0;
  TextOrNull governor{};
  CountOrNull max_mhz{};
  std::vector<std::string> flags{};
  std::vector<CpuCache> caches{};
};
template <>
struct Table<CpuBlock> {
  using C = CpuBlock;
  static constexpr const char* name = "cpu";
  static constexpr std::tuple fields{
      Field{"model", "-", &C::model, "as /proc/cpuinfo tells it"},
      later(Field{"vendor", "-", &C::vendor, "likewise"}),
      later(Field{"family_model_stepping", "-", &C::family_model_stepping, "likewise"}),
      later(Field{"microcode", "-", &C::microcode, "likewise"}),
      later(Field{"online", "cores", &C::online, "of the machine", range::not_negative}),
      Field{"usable", "cores", &C::usable, "of this process's affinity", range::not_negative},
      later(Field{"affinity", "-", &C::affinity, "numbers of the usable cores"}),
      later(Field{"smt", "-", &C::smt, "hardware threads are switched on"}),
      later(Field{"numa_nodes", "nodes", &C::numa_nodes, "memories", range::not_negative}),
      later(Field{"governor", "-", &C::governor, "of the clock frequency"}),
      later(Field{"max_mhz", "MHz", &C::max_mhz, "highest clock that the kernel allows", range::not_negative}),
      later(Field{"flags", "-", &C::flags, "instruction sets that change speed"}),
      Field{"caches", "-", &C::caches, "of the first core"}};
};

struct MemoryBlock {
  CountOrNull total_bytes{}, available_bytes{}, swap_bytes{};
};
template <>
struct Table<MemoryBlock> {
  using M = MemoryBlock;
  static constexpr const char* name = "memory";
  static constexpr std::tuple fields{
      later(Field{"total_bytes", "bytes", &M::total_bytes, "of the machine", range::not_negative}),
      later(Field{"available_bytes", "bytes", &M::available_bytes, "when the run began", range::not_negative}),
      later(Field{"swap_bytes", "bytes", &M::swap_bytes, "of the machine", range::not_negative})};
};

struct LimitsBlock {
  std::optional<double> cpus{};
  CountOrNull memory_bytes{};
};
template <>
struct Table<LimitsBlock> {
  using L = LimitsBlock;
  static constexpr const char* name = "limits";
  static constexpr std::tuple fields{
      later(Field{"cpus", "cores", &L::cpus, "that the control group allows; null: no limit", range::above_zero}),
      later(Field{"memory_bytes", "bytes", &L::memory_bytes, "that the control group allows; null: no limit",
                  range::not_negative})};
};

struct OsBlock {
  TextOrNull kernel{}, distribution{};
  std::string libc{};
  TextOrNull container{};
  bool virtual_machine = false;
  TextOrNull transparent_hugepages{};
};
template <>
struct Table<OsBlock> {
  using O = OsBlock;
  static constexpr const char* name = "os";
  static constexpr std::tuple fields{
      later(Field{"kernel", "-", &O::kernel, "its release"}),
      later(Field{"distribution", "-", &O::distribution, "its name"}),
      later(Field{"libc", "-", &O::libc, "version of the C library"}),
      later(Field{"container", "-", &O::container, "docker, podman, ...; null: none"}),
      later(Field{"virtual", "-", &O::virtual_machine, "a virtual machine"}),
      later(Field{"transparent_hugepages", "-", &O::transparent_hugepages, "the kernel's setting"})};
};

struct LoadBlock {
  double minutes_1 = 0, minutes_5 = 0, minutes_15 = 0;
};
template <>
struct Table<LoadBlock> {
  using L = LoadBlock;
  static constexpr const char* name = "load";
  static constexpr std::tuple fields{
      later(Field{"minutes_1", "processes", &L::minutes_1, "load average when the run began", range::not_negative}),
      later(Field{"minutes_5", "processes", &L::minutes_5, "likewise", range::not_negative}),
      later(Field{"minutes_15", "processes", &L::minutes_15, "likewise", range::not_negative})};
};

// One GPU as NVML tells it.
struct GpuState {
  std::string name{};
  std::string uuid{}, pci_bus{};
  int64_t memory_bytes = 0;
  std::optional<int> sm_clock_mhz{}, max_sm_clock_mhz{}, memory_clock_mhz{}, temperature_c{}, power_limit_w{},
      pcie_generation{}, pcie_lanes{};
  FlagOrNull ecc{}, mig{}, throttled{};
};
template <>
struct Table<GpuState> {
  using G = GpuState;
  static constexpr const char* name = "gpu";
  static constexpr std::tuple fields{
      Field{"name", "-", &G::name, "of the card", range::not_empty},
      text_or_null(Field{"uuid", "-", &G::uuid, "of the card"}),
      text_or_null(Field{"pci_bus", "-", &G::pci_bus, "where it sits"}),
      Field{"memory_bytes", "bytes", &G::memory_bytes, "of the card", range::not_negative},
      later(Field{"sm_clock_mhz", "MHz", &G::sm_clock_mhz, "when the run began", range::not_negative}),
      later(Field{"max_sm_clock_mhz", "MHz", &G::max_sm_clock_mhz, "the highest", range::not_negative}),
      later(Field{"memory_clock_mhz", "MHz", &G::memory_clock_mhz, "when the run began", range::not_negative}),
      later(Field{"temperature_c", "°C", &G::temperature_c, "when the run began"}),
      later(Field{"power_limit_w", "W", &G::power_limit_w, "as set", range::not_negative}),
      later(Field{"pcie_generation", "number", &G::pcie_generation, "at most; since 1.3", range::not_negative}),
      later(Field{"pcie_lanes", "lanes", &G::pcie_lanes, "at most; since 1.3", range::not_negative}),
      later(Field{"ecc", "-", &G::ecc, "error correction is switched on"}),
      later(Field{"mig", "-", &G::mig, "the card is divided"}),
      later(Field{"throttled", "-", &G::throttled, "something held its clocks down when the run began"})};
};

struct DriverBlock {
  std::string nvidia{}, cuda{};
};
template <>
struct Table<DriverBlock> {
  using D = DriverBlock;
  static constexpr const char* name = "driver";
  static constexpr std::tuple fields{text_or_null(Field{"nvidia", "-", &D::nvidia, "its version"}),
                                     text_or_null(Field{"cuda", "-", &D::cuda, "the newest CUDA that it runs"})};
};

// What dpbench was built with. The loaded ones are what the CUDA library of the workers says of itself.
struct Versions {
  std::string torch{}, cuda{}, nccl{}, cuda_loaded{}, nccl_loaded{};
};
template <>
struct Table<Versions> {
  using V = Versions;
  static constexpr const char* name = "versions";
  static constexpr std::tuple fields{
      text_or_null(Field{"torch", "-", &V::torch, "built with"}),
      text_or_null(Field{"cuda", "-", &V::cuda, "built with; null: without"}),
      text_or_null(Field{"nccl", "-", &V::nccl, "built with; null: without"}),
      text_or_null(Field{"cuda_loaded", "-", &V::cuda_loaded, "loaded by the workers; null: not loaded; since 1.3"}),
      text_or_null(Field{"nccl_loaded", "-", &V::nccl_loaded, "loaded by the workers; null: not loaded; since 1.3"})};
};

// A host of ranks that a launcher started.
struct LaunchedHost {
  std::string name{};
  std::string fingerprint{};
  TextOrNull cpu{};
  CountOrNull cores{}, memory_bytes{};
  std::vector<std::string> gpus{};
  std::vector<int> ranks{};
};
template <>
struct Table<LaunchedHost> {
  using H = LaunchedHost;
  static constexpr const char* name = "host";
  static constexpr std::tuple fields{
      Field{"name", "-", &H::name, "of the host"},
      Field{"fingerprint", "-", &H::fingerprint, "as the env block's"},
      later(Field{"cpu", "-", &H::cpu, "its model"}),
      later(Field{"cores", "cores", &H::cores, "usable", range::not_negative}),
      later(Field{"memory_bytes", "bytes", &H::memory_bytes, "of the host", range::not_negative}),
      later(Field{"gpus", "-", &H::gpus, "their names"}),
      Field{"ranks", "rank", &H::ranks, "that run on it", range::not_negative}};
};

struct EnvBlock {
  std::string fingerprint{};
  CpuBlock cpu{};
  MemoryBlock memory{};
  LimitsBlock limits{};
  OsBlock os{};
  std::optional<LoadBlock> load{};
  std::vector<GpuState> gpus{};
  std::vector<std::vector<std::string>> gpu_links{};
  DriverBlock driver{};
  Versions versions{};
  std::map<std::string, std::string> variables{};
  std::vector<LaunchedHost> hosts{};
  std::vector<std::string> warnings{};
};
template <>
struct Table<EnvBlock> {
  using E = EnvBlock;
  static constexpr const char* name = "env";
  static constexpr std::tuple fields{
      Field{"fingerprint", "-", &E::fingerprint, "8 hex digits, equal where speeds may be compared"},
      Field{"cpu", "-", &E::cpu, "processor"},
      Field{"memory", "-", &E::memory, "host memory"},
      Field{"limits", "-", &E::limits, "of the control group"},
      Field{"os", "-", &E::os, "system"},
      Field{"load", "-", &E::load, "load averages"},
      Field{"gpus", "-", &E::gpus, "the machine's"},
      later(Field{
          "gpu_links", "-", &E::gpu_links,
          "row i, column j: how GPU i reaches GPU j: NV18 is 18 NVLinks; else the closest PCIe level they share"}),
      Field{"driver", "-", &E::driver, "of the GPUs"},
      Field{"versions", "-", &E::versions, "of libraries"},
      Field{"variables", "-", &E::variables, "environment variables that change speed"},
      unless_empty(Field{"hosts", "-", &E::hosts, "of ranks that a launcher started"}),
      unless_empty(Field{"warnings", "-", &E::warnings, "what makes figures worse or noisier, with the remedy"})};
};

}  // namespace dpbench
