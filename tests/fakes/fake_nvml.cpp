// A fake of the NVML driver, the CUDA runtime and NCCL. It shows as many GPUs as FAKE_GPUS says (default: three), two
// of them joined by NVLink. Readings of power, energy, the SM clock and throttle reasons change with every call.
// FAKE_NVML=switch joins all GPUs through switches. FAKE_NVML=bare offers only the functions that every driver has.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool mode(const char* name) {
  const char* value_set = std::getenv("FAKE_NVML");
  return value_set && std::strcmp(value_set, name) == 0;
}
unsigned gpus() {
  const char* value_set = std::getenv("FAKE_GPUS");
  return value_set ? static_cast<unsigned>(std::atoi(value_set)) : 3;
}
unsigned long long number_of(void* device) { return reinterpret_cast<unsigned long long>(device) - 1; }
void* device_of(unsigned long long number) { return reinterpret_cast<void*>(number + 1); }

struct Pci {
  char legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
void put_bus(Pci* pci, unsigned long long number) {
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02llX:00.0", 0x1b + number);
}

int energy_readings = 0, power_readings = 0, clock_readings = 0, reason_readings = 0;

template <class T>
int put(T* where, T value) {
  *where = value;
  return 0;
}
constexpr int not_supported = 3;

}  // namespace

extern "C" {
int cudaRuntimeGetVersion(int* version) { return put(version, 13010); }
int ncclGetVersion(int* version) { return put(version, 22809); }
int cudaDeviceGetPCIBusId(char* bus, int size, int device) {
  return device < static_cast<int>(gpus())
         ? std::snprintf(bus, static_cast<size_t>(size), "0000:%02x:00.0", 0x1b + device),
         0 : 101;
}
int nvmlInit_v2() { return energy_readings = power_readings = clock_readings = reason_readings = 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return put(count, gpus()); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { return put(device, device_of(index)); }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned domain = 0, number = 0;
  if (std::sscanf(bus, "%x:%x:", &domain, &number) != 2 || number < 0x1b || number >= 0x1b + gpus())
    return not_supported;
  return put(device, device_of(number - 0x1b));
}
int nvmlDeviceGetName(void*, char* name, unsigned size) { return std::snprintf(name, size, "NVIDIA Pretended"), 0; }
int nvmlDeviceGetUUID(void* device, char* name, unsigned size) {
  return std::snprintf(name, size, "GPU-%llu", number_of(device)), 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) { return put(total_free_used, 80ull << 30); }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { return std::snprintf(text, size, "580.65.06"), 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return put(version, 13000); }
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  if (mode("bare")) return not_supported;
  return put_bus(pci, number_of(device)), 0;
}
int nvmlDeviceGetClockInfo(void*, unsigned which, unsigned* mhz) {
  if (mode("bare")) return not_supported;
  // Reports the memory clock for NVML's clock type 2 and the SM clock for all other types.
  return put(mhz, which == 2 ? 2619u : clock_readings++ % 2 ? 1200u : 1980u);
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned, unsigned* mhz) { return mode("bare") ? not_supported : put(mhz, 1980u); }
int nvmlDeviceGetTemperature(void*, unsigned, unsigned* degrees) { return put(degrees, 61u); }
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) { return put(milliwatts, 700000u); }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  return mode("bare") ? not_supported : put(milliwatts, 300000u + 1000u * static_cast<unsigned>(power_readings++));
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  return mode("bare") ? not_supported
                      : put(millijoules, 1000000ull + 50000ull * static_cast<unsigned>(energy_readings++));
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) { return put(generation, 5u); }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) { return put(lanes, 16u); }
int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* pending) { return put(now, 1u), put(pending, 1u); }
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) { return not_supported; }
// Reports throttle reasons in turn: idle, power limit, heat, configured clocks.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  constexpr unsigned long long cycle[] = {0x1, 0x4, 0x60, 0x2};
  return put(reasons, cycle[reason_readings++ % 4]);
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (mode("bare") || link >= 18) return not_supported;
  return put(active, mode("switch") || (number_of(device) < 2 && link < 4) ? 1u : 0u);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* kind) { return put(kind, mode("switch") ? 2 : 0); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, Pci* pci) {
  return put_bus(pci, mode("switch") ? 0x40 : 1 - number_of(device)), 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  return put(level, number_of(a) + number_of(b) == 1 ? 10 : 50);
}
}
