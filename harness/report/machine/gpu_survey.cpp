#include "harness/report/machine/gpu_survey.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harness/report/machine/nvml.h"

namespace dpbench {
namespace {

struct Memory {
  unsigned long long total, free, used;
};

// Highest number of NVLinks that are queried for a GPU; NVML rejects the numbers of links that do not exist.
constexpr unsigned most_nvlinks = 64;
constexpr int nvlink_to_a_switch = 2;

// Number of a GPU's active NVLinks, keyed by the bus id of the GPU at the other end, or by "switch" for an NVSwitch,
// which joins all GPUs.
using Nvlinks = std::map<std::string, int>;

std::optional<bool> on_off(const Nvml& nvml, const char* name, Nvml::Device device) {
  unsigned now = 0, pending = 0;
  return nvml.call(name, device, &now, &pending) ? std::optional(now != 0) : std::nullopt;
}

std::optional<int> as_int(std::optional<unsigned> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

GpuState state_of(const Nvml& nvml, Nvml::Device device) {
  GpuState gpu;
  const auto number = [&](const char* name, auto... which) {
    return as_int(nvml.query<unsigned>(name, device, which...));
  };
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  gpu.uuid = nvml.text("nvmlDeviceGetUUID", device);
  gpu.pci_bus = nvml.bus_of(device);
  if (const auto memory = nvml.query<Memory>("nvmlDeviceGetMemoryInfo", device))
    gpu.memory_bytes = static_cast<int64_t>(memory->total);
  gpu.sm_clock_mhz = number("nvmlDeviceGetClockInfo", nvml_sm_clock);
  gpu.max_sm_clock_mhz = number("nvmlDeviceGetMaxClockInfo", nvml_sm_clock);
  gpu.memory_clock_mhz = number("nvmlDeviceGetClockInfo", nvml_memory_clock);
  gpu.temperature_c = number("nvmlDeviceGetTemperature", nvml_gpu_temperature);
  if (const auto milliwatts = number("nvmlDeviceGetPowerManagementLimit")) gpu.power_limit_w = *milliwatts / 1000;
  // Use the maximum PCIe generation, because an idle link runs at a lower one.
  gpu.pcie_generation = number("nvmlDeviceGetMaxPcieLinkGeneration");
  gpu.pcie_lanes = number("nvmlDeviceGetMaxPcieLinkWidth");
  gpu.ecc = on_off(nvml, "nvmlDeviceGetEccMode", device);
  gpu.mig = on_off(nvml, "nvmlDeviceGetMigMode", device);
  if (const auto reasons = nvml.query<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device))
    gpu.throttled = !throttle_reasons(*reasons).empty();
  return gpu;
}

Nvlinks nvlinks_of(const Nvml& nvml, Nvml::Device device) {
  Nvlinks links;
  for (unsigned link = 0; link < most_nvlinks; ++link) {
    const auto active = nvml.query<unsigned>("nvmlDeviceGetNvLinkState", device, link);
    if (!active) break;
    if (*active == 0) continue;
    const auto kind = nvml.query<int>("nvmlDeviceGetNvLinkRemoteDeviceType", device, link);
    const auto remote = nvml.query<NvmlPci>("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link);
    if (kind == nvlink_to_a_switch)
      ++links["switch"];
    else if (remote)
      ++links[remote->bus_id.data()];
  }
  return links;
}

// Returns the number of NVLinks between two GPUs, directly or through switches.
int nvlinks_between(const Nvlinks& from, const Nvlinks& to, const std::string& bus_of_to) {
  if (const auto direct = from.find(bus_of_to); direct != from.end() && !bus_of_to.empty()) return direct->second;
  const auto a = from.find("switch"), b = to.find("switch");
  return a == from.end() || b == to.end() ? 0 : std::min(a->second, b->second);
}

// Returns the closest common PCIe level of two GPUs in the notation of `nvidia-smi topo`, e.g. PIX or SYS.
std::string pcie_between(const Nvml& nvml, Nvml::Device a, Nvml::Device b) {
  const auto level = nvml.query<int>("nvmlDeviceGetTopologyCommonAncestor", a, b);
  if (!level) return "?";
  return *level < 10   ? "PSB"
         : *level < 20 ? "PIX"
         : *level < 30 ? "PXB"
         : *level < 40 ? "PHB"
         : *level < 50 ? "NODE"
                       : "SYS";
}

std::vector<std::vector<std::string>> links_among(const Nvml& nvml, const std::vector<Nvml::Device>& devices,
                                                  const std::vector<GpuState>& gpus) {
  std::vector<Nvlinks> nvlinks;
  for (Nvml::Device device : devices) nvlinks.push_back(nvlinks_of(nvml, device));
  std::vector<std::vector<std::string>> rows(devices.size());
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = 0; j < devices.size(); ++j) {
      const int count = i == j ? 0 : nvlinks_between(nvlinks[i], nvlinks[j], gpus[j].pci_bus);
      rows[i].push_back(i == j      ? "X"
                        : count > 0 ? "NV" + std::to_string(count)
                                    : pcie_between(nvml, devices[i], devices[j]));
    }
  return rows;
}

}  // namespace

std::string cuda_version(int packed) {
  return std::to_string(packed / 1000) + "." + std::to_string(packed % 1000 / 10);
}

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  const Nvml nvml;
  if (!nvml.ready()) {
    survey.why_none = nvml.found() ? "the NVIDIA driver does not answer" : "no NVIDIA driver";
    return survey;
  }
  Accelerators& found = survey.accelerators;
  const auto devices = nvml.devices();
  for (Nvml::Device device : devices) found.gpus.push_back(state_of(nvml, device));
  found.links = links_among(nvml, devices, found.gpus);
  if (std::array<char, 96> driver{};
      nvml.call("nvmlSystemGetDriverVersion", driver.data(), static_cast<unsigned>(driver.size())))
    found.driver = driver.data();
  if (const auto cuda = nvml.query<int>("nvmlSystemGetCudaDriverVersion_v2")) found.cuda_driver = cuda_version(*cuda);
  if (devices.empty()) survey.why_none = "the NVIDIA driver lists no GPU";
  return survey;
}

}  // namespace dpbench
