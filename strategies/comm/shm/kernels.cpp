#include "strategies/comm/shm/kernels.h"

namespace dpbench::shm {

void fill_base(ReduceTable& table);
#ifdef __x86_64__
void fill_avx2(ReduceTable& table);
void fill_avx512(ReduceTable& table);
#endif

namespace {

struct Kernels {
  ReduceTable table{};
  Kernels() { best()(table); }

  static void (*best())(ReduceTable&) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
      return fill_avx512;
    if (__builtin_cpu_supports("avx2")) return fill_avx2;
#endif
    return fill_base;
  }
};

}  // namespace

Reduce find_reduce(Reduction reduction, Element element) {
  static const Kernels kernels;
  return kernels.table[int(reduction)][int(element)];
}

}  // namespace dpbench::shm
