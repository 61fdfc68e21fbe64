// A library for LD_PRELOAD that makes the wall clock jump an hour back or forth with every reading. Monotonic clocks
// stay correct.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static std::atomic<unsigned> readings{0};
  const long failed = syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock == CLOCK_REALTIME) now->tv_sec += readings++ % 2 ? 3600 : -3600;
  return static_cast<int>(failed);
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

extern "C" int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
