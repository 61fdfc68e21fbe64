// Enumerated properties of a benchmark case: scaling, dtype, parallelism. Does not depend on torch.
#pragma once

#include <array>
#include <string_view>

#include "workloads/base/names.h"

namespace dpbench {

enum class Device { cpu, cuda };
template <>
inline constexpr auto enum_names<Device> = std::to_array<std::string_view>({"cpu", "cuda"});

// strong: the batch size counts all devices together; weak: it counts the samples per device.
enum class Scaling { strong, weak };
template <>
inline constexpr auto enum_names<Scaling> = std::to_array<std::string_view>({"strong", "weak"});

// bf16 means autocast over float32 parameters.
enum class Dtype { f32, f64, bf16 };
template <>
inline constexpr auto enum_names<Dtype> = std::to_array<std::string_view>({"f32", "f64", "bf16"});

// single: one device; replicas: several devices in one process; ranks: one process per rank.
enum class Parallelism { single, replicas, ranks };
template <>
inline constexpr auto enum_names<Parallelism> = std::to_array<std::string_view>({"single", "replicas", "ranks"});

// The code that runs layers, backward passes and small allocations. torch: LibTorch's, as in a user's own program;
// fast: dpbench's own autograd nodes, graph traversal and cache of small memory blocks, with bit-identical results.
enum class Runtime { torch, fast };
template <>
inline constexpr auto enum_names<Runtime> = std::to_array<std::string_view>({"torch", "fast"});

}  // namespace dpbench
