#include "harness/worker/rank/cuda.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>

#include <ATen/Context.h>

#include "harness/report/machine/gpu_survey.h"

namespace dpbench {
namespace {

// Calls a C function of a loaded shared library by name. Returns false if it does not exist or returns an error code.
template <class... Arguments>
bool succeeded(const char* name, Arguments... arguments) {
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name));
  return function && function(arguments...) == 0;
}

#ifdef DPBENCH_CUDA_LIBRARY
// Loads libtorch_cuda from the folder of this process's libtorch_cpu. A Python interpreter can have another LibTorch of
// the same version than the one in the run path of dpbench's CUDA library: for another CUDA, or without CUDA. Returns
// an empty string on success, otherwise the reason for the failure.
std::string load_torch_cuda() {
  std::string library = "libtorch_cuda.so";
  link_map* cpu = nullptr;
  if (void* handle = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
      handle && dlinfo(handle, RTLD_DI_LINKMAP, &cpu) == 0)
    library = std::filesystem::path(cpu->l_name).replace_filename(library);
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return std::string("its library cannot be loaded: ") + dlerror();
  const std::string built = DPBENCH_CUDA_BUILT;
  int packed = 0;
  if (!succeeded("cudaRuntimeGetVersion", &packed)) return "";
  const std::string found = cuda_version(packed);
  if (found.substr(0, found.find('.')) == built.substr(0, built.find('.'))) return "";
  return "dpbench was built with CUDA " + built + ", but " + library + " uses CUDA " + found;
}
#endif

}  // namespace

std::string load_cuda() {
#ifdef DPBENCH_CUDA_LIBRARY
  if (const std::string reason = load_torch_cuda(); !reason.empty()) return reason;
  if (!dlopen(DPBENCH_CUDA_LIBRARY, RTLD_NOW | RTLD_GLOBAL))
    return std::string("its library cannot be loaded: ") + dlerror();
  // by default, torch would run float32 convolutions in the less precise TF32
  at::globalContext().setAllowTF32CuDNN(false);
  return "";
#else
  return DPBENCH_CUDA_REASON;
#endif
}

std::map<std::string, std::string> loaded_versions() {
  std::map<std::string, std::string> versions;
  const auto text = [](int number) { return std::to_string(number); };
  if (int packed = 0; succeeded("cudaRuntimeGetVersion", &packed)) versions["cuda_loaded"] = cuda_version(packed);
  if (int packed = 0; succeeded("ncclGetVersion", &packed))
    versions["nccl_loaded"] = text(packed / 10000) + "." + text(packed % 10000 / 100) + "." + text(packed % 100);
  return versions;
}

std::vector<std::string> pci_buses(const std::vector<int>& gpus) {
  std::vector<std::string> buses;
  for (const int gpu : gpus)
    if (std::array<char, 32> bus{}; succeeded("cudaDeviceGetPCIBusId", bus.data(), static_cast<int>(bus.size()), gpu))
      buses.emplace_back(bus.data());
  return buses;
}

}  // namespace dpbench
