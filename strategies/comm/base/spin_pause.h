// Executes the CPU's pause instruction. Loops that spin while they wait call it.
#pragma once

#include <thread>

namespace dpbench {

inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#else
  std::this_thread::yield();
#endif
}

}  // namespace dpbench
