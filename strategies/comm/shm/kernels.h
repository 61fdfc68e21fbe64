// Reduction kernels: combine several arrays into one, element by element and in the given order, so that the bits are
// reproducible. bfloat16 and float16 are reduced in float32 and rounded once. max and min propagate NaN. avg divides
// the sum.
#pragma once

#include <cstddef>

namespace dpbench::shm {

enum class Reduction : unsigned char { sum, avg, product, min, max };
enum class Element : unsigned char { f32, f64, bf16, f16, i32, i64, i8, u8 };
inline constexpr int reduction_count = 5, element_count = 8;

// A reduction kernel. It combines the sources and writes the result to every target. An array may be both a source and
// a target.
using Reduce = void (*)(const void* const* sources, int n_sources, void* const* targets, int n_targets, size_t count);

// A table of reduction kernels, indexed by reduction and element type. An entry is null if the reduction is undefined
// for the type, such as the average of integers.
using ReduceTable = Reduce[reduction_count][element_count];

// Returns the kernel for the best instruction set of this CPU; null if the reduction is undefined for the type.
Reduce find_reduce(Reduction reduction, Element element);

}  // namespace dpbench::shm
