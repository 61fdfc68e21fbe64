// While an object constructed with on = true exists, bfloat16 autocast is enabled on its thread. Construct it on the
// thread that runs the pass.
//
// torch's cache of cast weights stays off under this autocast: all threads of a process share the cache, and if one
// thread clears it, another thread's pass would get other bits. So a weight is cast at each use, and the gradients of
// its uses are added in the weight's own dtype.
#pragma once

#include <ATen/autocast_mode.h>

namespace dpbench {

class Autocast {
 public:
  Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    before_ = at::autocast::is_autocast_enabled(device_);
    cached_before_ = at::autocast::is_autocast_cache_enabled();
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_cache_enabled(cached_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_, before_ = false, cached_before_ = true;
  at::DeviceType device_;
};

}  // namespace dpbench
