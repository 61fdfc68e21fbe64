// The axes of a case that are chosen from a few words. Knows no torch.
#pragma once

#include <array>
#include <string_view>

#include "workloads/base/names.h"

namespace dpbench {

enum class Device { cpu, cuda };
template <>
inline constexpr auto enum_names<Device> = std::to_array<std::string_view>({"cpu", "cuda"});

// strong: a case's batch is the global one; weak: that of each device.
enum class Scaling { strong, weak };
template <>
inline constexpr auto enum_names<Scaling> = std::to_array<std::string_view>({"strong", "weak"});

// bf16: autocast over float32 parameters.
enum class Dtype { f32, f64, bf16 };
template <>
inline constexpr auto enum_names<Dtype> = std::to_array<std::string_view>({"f32", "f64", "bf16"});

// How a strategy shares a model out: one device, replicas in one process, a process for each rank.
enum class Parallelism { single, replicas, ranks };
template <>
inline constexpr auto enum_names<Parallelism> = std::to_array<std::string_view>({"single", "replicas", "ranks"});

}  // namespace dpbench
