// NVIDIA's management library, opened at run time: the few parts of its stable C interface that are used here. Its own
// header comes with the CUDA toolkit alone.
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

  // Whether it succeeded; an absent function is a failed call.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (!library_) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function && function(arguments...) == 0;
  }
  // A figure that a call with these arguments writes through its last one; empty: not told.
  template <class Value, class... Arguments>
  std::optional<Value> told(const char* name, Arguments... arguments) const {
    Value value{};
    return call(name, arguments..., &value) ? std::optional(value) : std::nullopt;
  }
  std::string text(const char* name, Device device) const;
  std::string bus_of(Device device) const;  // "00000000:1B:00.0"

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

// What slows a GPU down just now, in NVML's words: sw_power_cap, hw_slowdown, ... Idling is none of it.
std::vector<std::string> slowing_reasons(unsigned long long bits);

}  // namespace dpbench
