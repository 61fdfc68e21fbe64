// Detects whether torch's autograd engine runs backward passes.
#pragma once

#include <cstdint>

#include <ATen/record_function.h>

namespace dpbench {

// Counts the autograd nodes that torch's engine runs on any thread while this object exists. Only one EngineWatch may
// exist at a time.
class EngineWatch {
 public:
  EngineWatch();
  ~EngineWatch();
  EngineWatch(const EngineWatch&) = delete;
  EngineWatch& operator=(const EngineWatch&) = delete;

  // Returns the number of autograd nodes, of torch's layers and of dpbench's, that torch's engine has run, e.g. because
  // a strategy called loss.backward() instead of dpbench::backward(loss).
  int64_t nodes() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace dpbench
