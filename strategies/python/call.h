// Calls from C++ into Python, through one C function that Python registers. The call passes only the name of a request.
// Its tensors, numbers and texts are in a C++ object, the frame, which Python reads and answers with torch operators
// (torch.ops.dpbench, operators.cpp). So this code needs no Python headers, and tensors keep their autograd graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench::python {

// A frame: the data that a call passes to Python, and Python's answer. Calls may be nested, for example when a strategy
// in Python runs a model in Python, so each thread has a stack of frames.
struct Frame {
  std::vector<at::Tensor> tensors = {};
  std::vector<int64_t> numbers = {};
  std::vector<std::string> texts = {};
  Phases* phases = nullptr;  // phase times of the running step; null outside of a step

  NamedTensors answer = {};
  std::vector<int64_t> answered_numbers = {};
  std::string error = {};
};

// Returns the frame (data and answer) of the innermost call to Python on this thread; null if there is none, as on a
// thread that Python started.
Frame* innermost_if_any();

// Returns the frame (data and answer) of the innermost call to Python on this thread. Throws if Python calls an
// operator of dpbench outside any call.
Frame& innermost();

// The outcome of a call to Python, as Python returns it. Unless it is `answered`, the call has failed and Python has
// set an error message.
enum Outcome : int { answered = 0, failed = 1, wrong_usage = 2, out_of_memory = 3, unsuitable_model = 4 };
using Function = int (*)(const char* request, int64_t object, int64_t number);
void set_function(Function function);

// Calls Python, and returns the frame with the call's data and Python's answer. object: the number under which Python
// knows the strategy, model or workload. If Python raises an error, throws it as UsageError, UnsuitableModel,
// OutOfHostMemory or std::runtime_error.
Frame call(const char* request, int64_t object, int64_t number = 0, Frame frame = {});
// Returns the tensor with which Python answered. Throws if the answer has not exactly one tensor.
at::Tensor only_tensor(const Frame& frame);

}  // namespace dpbench::python
