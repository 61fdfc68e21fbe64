// NVML, NVIDIA's management library, loaded at run time. Declares the parts of its stable C interface that dpbench
// uses, because NVML's header comes only with the CUDA toolkit.
#pragma once

#include <dlfcn.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace dpbench {

class Nvml {
 public:
  using Device = void*;

  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool found() const { return library_ != nullptr; }
  bool ready() const { return ready_; }
  std::vector<Device> devices() const;
  std::optional<Device> at_bus(const std::string& pci_bus) const;

  // Calls an NVML function by name. Returns true on success; a missing function counts as a failure.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (!library_) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function && function(arguments...) == 0;
  }
  // Calls an NVML function that returns a value through a pointer as its last argument. Returns nullopt on failure.
  template <class Value, class... Arguments>
  std::optional<Value> query(const char* name, Arguments... arguments) const {
    Value value{};
    return call(name, arguments..., &value) ? std::optional(value) : std::nullopt;
  }
  std::string text(const char* name, Device device) const;
  std::string bus_of(Device device) const;  // returns the PCI bus id, e.g. "00000000:1B:00.0"

 private:
  void* library_;
  bool ready_ = false;
};

inline constexpr unsigned nvml_sm_clock = 1, nvml_memory_clock = 2, nvml_gpu_temperature = 0;

struct NvmlPci {
  std::array<char, 16> bus_id_legacy;
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  std::array<char, 32> bus_id;
};

// Decodes NVML's bit mask into the names of the active throttle reasons: sw_power_cap, hw_slowdown, ... An idle clock
// is not counted as a throttle reason.
std::vector<std::string> throttle_reasons(unsigned long long bits);

}  // namespace dpbench
