// Element-wise reduction of several arrays into one result, in the order given, so that its bits depend on nothing
// else. bfloat16 and float16 are summed in float32 and rounded once. max and min hand a NaN on. avg divides the sum.
#pragma once

#include <cstddef>

namespace dpbench::shm {

enum class Reduction : unsigned char { sum, avg, product, min, max };
enum class Element : unsigned char { f32, f64, bf16, f16, i32, i64, i8, u8 };
inline constexpr int kReductions = 5, kElements = 8;

// Writes the result to every target. A target may be one of the sources.
using Reduce = void (*)(const void* const* sources, int n_sources, void* const* targets, int n_targets, size_t count);

// [reduction][element]; null where the reduction means nothing (the average of integers).
using ReduceTable = Reduce[kReductions][kElements];

// The best that this CPU runs.
Reduce find_reduce(Reduction reduction, Element element);

}  // namespace dpbench::shm
