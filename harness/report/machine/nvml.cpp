#include "harness/report/machine/nvml.h"

namespace dpbench {
namespace {

struct ThrottleBit {
  unsigned long long bit;
  const char* name;
};
constexpr ThrottleBit throttle_bits[] = {{0x4, "sw_power_cap"},
                                         {0x8, "hw_slowdown"},
                                         {0x20, "sw_thermal_slowdown"},
                                         {0x40, "hw_thermal_slowdown"},
                                         {0x80, "hw_power_brake_slowdown"}};

}  // namespace

Nvml::Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) { ready_ = call<>("nvmlInit_v2"); }

Nvml::~Nvml() {
  if (ready_) call<>("nvmlShutdown");
  if (library_) ::dlclose(library_);
}

std::vector<Nvml::Device> Nvml::devices() const {
  std::vector<Device> found;
  const unsigned count = query<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned i = 0; i < count; ++i)
    if (const auto device = query<Device>("nvmlDeviceGetHandleByIndex_v2", i)) found.push_back(*device);
  return found;
}

std::optional<Nvml::Device> Nvml::at_bus(const std::string& pci_bus) const {
  return query<Device>("nvmlDeviceGetHandleByPciBusId_v2", pci_bus.c_str());
}

std::string Nvml::text(const char* name, Device device) const {
  std::array<char, 128> buffer{};
  return call(name, device, buffer.data(), static_cast<unsigned>(buffer.size())) ? buffer.data() : "";
}

std::string Nvml::bus_of(Device device) const {
  const auto pci = query<NvmlPci>("nvmlDeviceGetPciInfo_v3", device);
  return pci ? pci->bus_id.data() : "";
}

std::vector<std::string> throttle_reasons(unsigned long long bits) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : throttle_bits)
    if (bits & bit) names.emplace_back(name);
  return names;
}

}  // namespace dpbench
