// The env block of a report: facts about the machine and software that can explain a difference between two runs.
// Unknown facts are null.
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
      Field{"level", "number", &C::level, "cache level; 1 is the nearest to the core", range::not_negative},
      Field{"type", "-", &C::type, "kind of the cache: Data, Instruction or Unified"},
      Field{"bytes", "bytes", &C::bytes, "size of the cache", range::not_negative},
      Field{"shared_by", "logical processors", &C::shared_by, "number of logical processors that share the cache",
            range::not_negative}};
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
      Field{"model", "-", &C::model, "model name from /proc/cpuinfo"},
      later(Field{"vendor", "-", &C::vendor, "vendor from /proc/cpuinfo"}),
      later(Field{"family_model_stepping", "-", &C::family_model_stepping,
                  "family, model and stepping from /proc/cpuinfo"}),
      later(Field{"microcode", "-", &C::microcode, "microcode version from /proc/cpuinfo"}),
      later(Field{"online", "cores", &C::online, "cores of the machine", range::not_negative}),
      Field{"usable", "cores", &C::usable, "cores in the affinity mask of the process", range::not_negative},
      later(Field{"affinity", "-", &C::affinity, "list of the usable cores"}),
      later(Field{"smt", "-", &C::smt, "simultaneous multithreading is on"}),
      later(Field{"numa_nodes", "nodes", &C::numa_nodes, "number of NUMA nodes", range::not_negative}),
      later(Field{"governor", "-", &C::governor, "CPU frequency governor"}),
      later(
          Field{"max_mhz", "MHz", &C::max_mhz, "highest clock frequency that the kernel allows", range::not_negative}),
      later(Field{"flags", "-", &C::flags, "instruction set extensions that affect speed"}),
      Field{"caches", "-", &C::caches, "caches of the first core"}};
};

struct MemoryBlock {
  CountOrNull total_bytes{}, available_bytes{}, swap_bytes{};
};
template <>
struct Table<MemoryBlock> {
  using M = MemoryBlock;
  static constexpr const char* name = "memory";
  static constexpr std::tuple fields{
      later(Field{"total_bytes", "bytes", &M::total_bytes, "memory of the machine", range::not_negative}),
      later(Field{"available_bytes", "bytes", &M::available_bytes, "available memory at the start of the run",
                  range::not_negative}),
      later(Field{"swap_bytes", "bytes", &M::swap_bytes, "swap space of the machine", range::not_negative})};
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
      later(Field{"cpus", "cores", &L::cpus, "CPU limit of the control group; null: no limit", range::above_zero}),
      later(Field{"memory_bytes", "bytes", &L::memory_bytes, "memory limit of the control group; null: no limit",
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
      later(Field{"kernel", "-", &O::kernel, "release of the kernel"}),
      later(Field{"distribution", "-", &O::distribution, "name of the distribution"}),
      later(Field{"libc", "-", &O::libc, "version of the C library"}),
      later(Field{"container", "-", &O::container, "kind of container: docker, podman, ...; null: none"}),
      later(Field{"virtual", "-", &O::virtual_machine, "the machine is virtual"}),
      later(Field{"transparent_hugepages", "-", &O::transparent_hugepages,
                  "the kernel's setting of transparent huge pages"})};
};

struct LoadBlock {
  double minutes_1 = 0, minutes_5 = 0, minutes_15 = 0;
};
template <>
struct Table<LoadBlock> {
  using L = LoadBlock;
  static constexpr const char* name = "load";
  static constexpr std::tuple fields{
      later(Field{"minutes_1", "processes", &L::minutes_1, "load average over 1 minute at the start of the run",
                  range::not_negative}),
      later(Field{"minutes_5", "processes", &L::minutes_5, "load average over 5 minutes at the start of the run",
                  range::not_negative}),
      later(Field{"minutes_15", "processes", &L::minutes_15, "load average over 15 minutes at the start of the run",
                  range::not_negative})};
};

// Settings and state of one GPU, as read through NVML.
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
      Field{"name", "-", &G::name, "name of the GPU", range::not_empty},
      text_or_null(Field{"uuid", "-", &G::uuid, "UUID of the GPU"}),
      text_or_null(Field{"pci_bus", "-", &G::pci_bus, "PCI bus id of the GPU"}),
      Field{"memory_bytes", "bytes", &G::memory_bytes, "memory of the GPU", range::not_negative},
      later(Field{"sm_clock_mhz", "MHz", &G::sm_clock_mhz, "SM clock at the start of the run", range::not_negative}),
      later(Field{"max_sm_clock_mhz", "MHz", &G::max_sm_clock_mhz, "highest SM clock", range::not_negative}),
      later(Field{"memory_clock_mhz", "MHz", &G::memory_clock_mhz, "memory clock at the start of the run",
                  range::not_negative}),
      later(Field{"temperature_c", "°C", &G::temperature_c, "temperature at the start of the run"}),
      later(Field{"power_limit_w", "W", &G::power_limit_w, "configured power limit", range::not_negative}),
      later(Field{"pcie_generation", "number", &G::pcie_generation, "maximum PCIe generation; since 1.3",
                  range::not_negative}),
      later(
          Field{"pcie_lanes", "lanes", &G::pcie_lanes, "maximum number of PCIe lanes; since 1.3", range::not_negative}),
      later(Field{"ecc", "-", &G::ecc, "ECC memory is on"}),
      later(Field{"mig", "-", &G::mig, "MIG mode is on"}),
      later(Field{"throttled", "-", &G::throttled, "clocks were throttled at the start of the run"})};
};

struct DriverBlock {
  std::string nvidia{}, cuda{};
};
template <>
struct Table<DriverBlock> {
  using D = DriverBlock;
  static constexpr const char* name = "driver";
  static constexpr std::tuple fields{
      text_or_null(Field{"nvidia", "-", &D::nvidia, "version of the NVIDIA driver"}),
      text_or_null(Field{"cuda", "-", &D::cuda, "newest CUDA version that the driver supports"})};
};

// Library versions that dpbench was built with, and those of the CUDA libraries that its workers loaded.
struct Versions {
  std::string torch{}, cuda{}, nccl{}, cuda_loaded{}, nccl_loaded{};
};
template <>
struct Table<Versions> {
  using V = Versions;
  static constexpr const char* name = "versions";
  static constexpr std::tuple fields{
      text_or_null(Field{"torch", "-", &V::torch, "LibTorch that dpbench was built with"}),
      text_or_null(Field{"cuda", "-", &V::cuda, "CUDA that dpbench was built with; null: none"}),
      text_or_null(Field{"nccl", "-", &V::nccl, "NCCL that dpbench was built with; null: none"}),
      text_or_null(
          Field{"cuda_loaded", "-", &V::cuda_loaded, "CUDA loaded by the workers; null: not loaded; since 1.3"}),
      text_or_null(
          Field{"nccl_loaded", "-", &V::nccl_loaded, "NCCL loaded by the workers; null: not loaded; since 1.3"})};
};

// One host of a run that an external launcher such as torchrun started: its ranks and machine facts.
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
      Field{"name", "-", &H::name, "name of the host"},
      Field{"fingerprint", "-", &H::fingerprint, "fingerprint of the host, as in env"},
      later(Field{"cpu", "-", &H::cpu, "CPU model of the host"}),
      later(Field{"cores", "cores", &H::cores, "usable cores of the host", range::not_negative}),
      later(Field{"memory_bytes", "bytes", &H::memory_bytes, "memory of the host", range::not_negative}),
      later(Field{"gpus", "-", &H::gpus, "names of the host's GPUs"}),
      Field{"ranks", "rank", &H::ranks, "ranks on the host", range::not_negative}};
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
      Field{"fingerprint", "-", &E::fingerprint, "8 hex digits; equal for machines with comparable speed"},
      Field{"cpu", "-", &E::cpu, "CPU of the machine"},
      Field{"memory", "-", &E::memory, "host memory"},
      Field{"limits", "-", &E::limits, "limits of the control group"},
      Field{"os", "-", &E::os, "operating system"},
      Field{"load", "-", &E::load, "load averages"},
      Field{"gpus", "-", &E::gpus, "GPUs of the machine"},
      later(
          Field{"gpu_links", "-", &E::gpu_links,
                "row i, column j: connection of GPU i to GPU j; NV18: 18 NVLinks, else the closest common PCIe level"}),
      Field{"driver", "-", &E::driver, "GPU driver"},
      Field{"versions", "-", &E::versions, "library versions"},
      Field{"variables", "-", &E::variables, "environment variables that affect speed"},
      unless_empty(Field{"hosts", "-", &E::hosts, "hosts of the ranks, if an external launcher started them"}),
      unless_empty(
          Field{"warnings", "-", &E::warnings, "conditions that make figures worse or noisier, with remedies"})};
};

}  // namespace dpbench
