#include "harness/front/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <memory>

namespace dpbench {
namespace {

// The few parts of NVML's stable C interface that are used here; its own header comes with the CUDA toolkit alone.
using Device = void*;
using Result = int;
constexpr Result kSuccess = 0;
constexpr unsigned kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
// Slowed by heat or power: software power cap, hardware slowdown, software and hardware thermal, power brake.
constexpr unsigned long long kThrottled = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  std::array<char, 32> bus_id;
};

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_) ready_ = call<>("nvmlInit_v2") == kSuccess;
  }
  ~Nvml() {
    if (ready_) call<>("nvmlShutdown");
    if (library_) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool found() const { return library_ != nullptr; }
  bool ready() const { return ready_; }

  // An absent function is a failed call.
  template <class... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Result (*)(Arguments...)>(::dlsym(library_, name));
    return function ? function(arguments...) : -1;
  }

  std::string text(const char* name, Device device) const {
    std::array<char, 128> buffer{};
    return call(name, device, buffer.data(), static_cast<unsigned>(buffer.size())) == kSuccess ? buffer.data() : "";
  }

  std::optional<int> number(const char* name, Device device, unsigned which) const {
    unsigned value = 0;
    return call(name, device, which, &value) == kSuccess ? std::optional(static_cast<int>(value)) : std::nullopt;
  }

 private:
  void* library_;
  bool ready_ = false;
};

std::optional<bool> on_off(const Nvml& nvml, const char* name, Device device) {
  unsigned now = 0, pending = 0;
  return nvml.call(name, device, &now, &pending) == kSuccess ? std::optional(now != 0) : std::nullopt;
}

GpuState state_of(const Nvml& nvml, Device device) {
  GpuState gpu;
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  gpu.uuid = nvml.text("nvmlDeviceGetUUID", device);
  if (PciInfo pci{}; nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) gpu.pci_bus = pci.bus_id.data();
  if (Memory memory{}; nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess)
    gpu.memory_bytes = static_cast<int64_t>(memory.total);
  gpu.sm_clock_mhz = nvml.number("nvmlDeviceGetClockInfo", device, kClockSm);
  gpu.max_sm_clock_mhz = nvml.number("nvmlDeviceGetMaxClockInfo", device, kClockSm);
  gpu.memory_clock_mhz = nvml.number("nvmlDeviceGetClockInfo", device, kClockMemory);
  gpu.temperature_c = nvml.number("nvmlDeviceGetTemperature", device, kTemperatureGpu);
  if (unsigned milliwatts = 0; nvml.call("nvmlDeviceGetPowerManagementLimit", device, &milliwatts) == kSuccess)
    gpu.power_limit_w = static_cast<int>(milliwatts / 1000);
  gpu.ecc = on_off(nvml, "nvmlDeviceGetEccMode", device);
  gpu.mig = on_off(nvml, "nvmlDeviceGetMigMode", device);
  if (unsigned long long reasons = 0;
      nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == kSuccess)
    gpu.throttled = (reasons & kThrottled) != 0;
  return gpu;
}

// How two GPUs reach each other, in the words of `nvidia-smi topo`.
std::string link_between(const Nvml& nvml, Device a, Device b) {
  if (a == b) return "X";
  int level = 0;
  if (nvml.call("nvmlDeviceGetTopologyCommonAncestor", a, b, &level) != kSuccess) return "?";
  return level < 10   ? "PSB"
         : level < 20 ? "PIX"
         : level < 30 ? "PXB"
         : level < 40 ? "PHB"
         : level < 50 ? "NODE"
                      : "SYS";
}

std::string version_text(int packed) {
  return std::to_string(packed / 1000) + "." + std::to_string(packed % 1000 / 10);
}

}  // namespace

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  const Nvml nvml;
  if (!nvml.ready()) {
    survey.why_none = nvml.found() ? "the NVIDIA driver does not answer" : "no NVIDIA driver";
    return survey;
  }
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  std::vector<Device> devices;
  for (unsigned i = 0; i < count; ++i)
    if (Device device = nullptr; nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) == kSuccess)
      devices.push_back(device);
  for (Device device : devices) survey.accelerators.gpus.push_back(state_of(nvml, device));
  for (Device from : devices) {
    auto& row = survey.accelerators.links.emplace_back();
    for (Device to : devices) row.push_back(link_between(nvml, from, to));
  }
  std::array<char, 96> driver{};
  if (nvml.call("nvmlSystemGetDriverVersion", driver.data(), static_cast<unsigned>(driver.size())) == kSuccess)
    survey.accelerators.driver = driver.data();
  if (int cuda = 0; nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == kSuccess)
    survey.accelerators.cuda_driver = version_text(cuda);
  if (devices.empty()) survey.why_none = "the NVIDIA driver lists no GPU";
  return survey;
}

}  // namespace dpbench
