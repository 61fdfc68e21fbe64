#include "strategies/python/call.h"

#include <stdexcept>
#include <utility>

#include "workloads/base/error.h"

namespace dpbench::python {
namespace {

Function function_of_python = nullptr;
thread_local std::vector<Frame*> frames;

// Puts a call's data on this thread's stack of calls to Python, and removes it at the end of the scope.
class Pushed {
 public:
  explicit Pushed(Frame& frame) { frames.push_back(&frame); }
  ~Pushed() { frames.pop_back(); }
  Pushed(const Pushed&) = delete;
  Pushed& operator=(const Pushed&) = delete;
};

}  // namespace

Frame* innermost_if_any() { return frames.empty() ? nullptr : frames.back(); }

Frame& innermost() {
  if (frames.empty()) throw std::runtime_error("this function of dpbench works only while dpbench calls Python");
  return *frames.back();
}

void set_function(Function function) { function_of_python = function; }

Frame call(const char* request, int64_t object, int64_t number, Frame frame) {
  check(function_of_python != nullptr, "Python has not given its function");
  int outcome = 0;
  {
    const Pushed pushed(frame);
    outcome = function_of_python(request, object, number);
  }
  if (outcome == unsuitable_model) throw UnsuitableModel(frame.error);
  if (outcome == wrong_usage) throw UsageError(frame.error);
  if (outcome == out_of_memory) throw OutOfHostMemory(frame.error);
  if (outcome != answered) throw std::runtime_error(frame.error);
  return frame;
}

at::Tensor only_tensor(const Frame& frame) {
  check(frame.answer.size() == 1, "Python must answer with one tensor");
  return frame.answer[0].second;
}

}  // namespace dpbench::python
