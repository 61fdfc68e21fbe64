#include "harness/worker/measure/kineto_trace.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include <torch/csrc/autograd/profiler_kineto.h>

namespace dpbench {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

torch::profiler::impl::ProfilerConfig profiler_config() {
  torch::profiler::impl::ExperimentalConfig all_threads;
  // Trace all threads, because the backward pass and replicas run in other threads.
  all_threads.profile_all_threads = true;
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                               /*report_input_shapes=*/true, /*profile_memory=*/false,
                                               /*with_stack=*/false, /*with_flops=*/false, /*with_modules=*/false,
                                               all_threads);
}

}  // namespace

Trace::Trace(c10::Device device) {
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);  // silence Kineto's warning that there is no GPU
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  profiler::prepareProfiler(profiler_config(), activities);
  profiler::enableProfiler(profiler_config(), activities);
}

void Trace::entered(Phase phase, Time) {
  annotation_.emplace(at::RecordScope::USER_SCOPE);
  if (annotation_->isActive()) annotation_->before("dpbench: " + std::string(phase_names[static_cast<size_t>(phase)]));
}

void Trace::save(const std::string& file, const std::vector<TracedCollective>& collectives) {
  annotation_.reset();
  profiler::disableProfiler()->save(file);
  if (collectives.empty()) return;
  std::ifstream written(file);
  Json trace = Json::parse(written);
  add_collectives(trace, getpid(), collectives);
  std::ofstream(file) << trace.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace dpbench
