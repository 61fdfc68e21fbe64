#include "strategies/ddp/reduction.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "workloads/base/error.h"

namespace dpbench::ddp {
namespace {

// Returns the indices of unused parameters that torch's error message lists after "did not receive grad for rank N:".
std::string unused_numbers(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const size_t at = text.find(": ", std::min(text.find("did not receive grad"), text.size()));
  return at == std::string::npos ? "" : text.substr(at + 2);
}

// The Reducer's metrics, as pairs: the name in dpbench's report and the name in torch's logger. Times come first, then
// lists of numbers.
constexpr std::pair<const char*, const char*> logged_times[] = {
    {"reducer_forward_ns", "forward_compute_time"},
    {"reducer_backward_compute_ns", "backward_compute_time"},
    {"reducer_backward_communication_ns", "backward_comm_time"},
    {"reducer_overlap_ns", "backward_compute_comm_overlap_time"}};
constexpr std::pair<const char*, const char*> logged_lists[] = {
    {"reducer_bucket_bytes", "rebuilt_bucket_sizes"},
    {"reducer_gradient_ready_order", "prev_iteration_grad_ready_order_indices"}};

std::vector<double> numbers_in(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  return std::vector<double>(std::istream_iterator<double>(words), {});
}

// c10d communication hook that reduces gradients in float16, bfloat16 or their own dtype.
class CompressionHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressionHook(c10::intrusive_ptr<c10d::ProcessGroup> group, std::optional<at::ScalarType> type)
      : CppCommHookInterface(std::move(group)), type_(type) {}

  // Reduces a bucket of gradients in the narrower dtype, if one is set. Gradients are divided by the world size before
  // the sum: float16's maximum is 65504, so their sum would overflow long before their mean.
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor wide = bucket.getBuffer();
    std::vector<at::Tensor> narrow = {wide.to(type_.value_or(wide.scalar_type())).div_(state_->getSize())};
    auto done = state_->allreduce(narrow)->getFuture();
    return done->then(
        [wide, narrow](c10::ivalue::Future& future) {
          future.waitAndThrow();
          if (!wide.is_same(narrow[0])) wide.copy_(narrow[0]);
          return c10::IValue(wide);
        },
        c10::TensorType::get());
  }

 private:
  std::optional<at::ScalarType> type_;
};

}  // namespace

std::chrono::nanoseconds TimedReducer::after_computing() const {
  using Event = c10d::Timer::Event;
  if (!timer_) return {};
  const auto ns = timer_->measureDifference(Event::kBackwardComputeEnd, Event::kBackwardCommEnd);
  return std::chrono::nanoseconds(std::max<int64_t>(0, ns.value_or(0)));
}

std::map<std::string, std::vector<double>> Reduction::figures() {
  logger_->set_runtime_stats_and_log();
  const auto data = logger_->get_ddp_logging_data();
  std::map<std::string, std::vector<double>> figures;
  for (const auto& [ours, torchs] : logged_times)
    if (const auto found = data.ints_map.find(torchs); found != data.ints_map.end())
      figures[ours] = {static_cast<double>(found->second)};
  for (const auto& [ours, torchs] : logged_lists)
    if (const auto found = data.strs_map.find(torchs); found != data.strs_map.end())
      figures[ours] = numbers_in(found->second);
  return figures;
}

Reduction::Reduction(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<Parameter>& parameters,
                     const Options& options, const SteppingHook::Step& step)
    : parameters_(parameters), options_(options), group_(std::move(group)) {
  const auto tensors = tensors_of(parameters_);
  c10d::verify_params_across_processes(group_, tensors, std::nullopt);
  // Size limits of buckets. At first there is one bucket per dtype, because the order in which gradients become ready
  // is known only after the first backward pass. If parameters may be unused, that order is not reliable; the
  // configured limits then apply from the start.
  std::vector<size_t> limits = {std::numeric_limits<size_t>::max()};
  if (options_.find_unused && !options_.static_graph)
    limits = {static_cast<size_t>(options_.first_bucket_bytes), static_cast<size_t>(options_.bucket_bytes)};
  auto [buckets, bucket_limits] = c10d::compute_bucket_assignment_by_size(tensors, limits);
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) names[i] = parameters_[i].name;
  reducer_ = std::make_shared<TimedReducer>(
      tensors, buckets, group_, std::vector<bool>(tensors.size(), false), options_.bucket_bytes, options_.find_unused,
      options_.bucket_views, names, options_.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/options_.skip_unused, /*use_python_reducer=*/false, std::vector<int64_t>{});
  if (options_.graph) reducer_->stop_clock();
  // Keeps the logger alive, because the Reducer uses a pointer to it without checking that it still exists.
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  logger_->set_construction_data_and_log("dpbench", {}, -1, options_.broadcast_buffers, options_.sync_batch_norm,
                                         options_.static_graph);
  if (options_.static_graph) {
    reducer_->set_static_graph();
    logger_->set_static_graph();
  }
  register_hook(step);
}

void Reduction::register_hook(const SteppingHook::Step& step) {
  if (!options_.compression && !options_.step_in_backward) return;
  std::unique_ptr<c10d::CommHookInterface> hook = std::make_unique<CompressionHook>(group_, options_.compression);
  // Earlier micro-batches leave gradients incomplete, so parameters are stepped only in the last one.
  if (options_.step_in_backward)
    hook = std::make_unique<SteppingHook>(std::move(hook), [this, step](const auto& parameters, const auto& gradients) {
      if (last_) step(parameters, gradients);
    });
  reducer_->register_comm_hook(std::move(hook));
}

// Decides whether the gradients of the next pass are reduced. With ddp.static_graph, the first two passes are reduced
// even if `last` is false, because the Reducer treats every pass before the second reduced pass as the first pass of a
// static graph. The additional reduction costs time, but the gradients are correct.
void Reduction::before_forward(bool last) {
  last_ = last;
  sync_ = last || (options_.static_graph && reduced_passes_ < 2);
  if (sync_) reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();
}

void Reduction::before_backward(const at::Tensor& output) {
  if (!sync_) return;
  // Here the Reducer searches the autograd graph of the pass's output for unused parameters.
  std::vector<at::Tensor> searched;
  if (options_.find_unused && !options_.static_graph) searched.push_back(output);
  reducer_->prepare_for_backward(searched);
}

void Reduction::after_backward() {
  if (!sync_) return;
  if (reduced_passes_++ == 0 && options_.static_graph) return reducer_->delay_all_reduce();
  refuse_unused_parameters();
}

// Throws if a pass left a parameter unused although ddp.find_unused is off. The Reducer never reduces a bucket with
// such a parameter, so the bucket's gradients would differ between ranks.
void Reduction::refuse_unused_parameters() {
  try {
    reducer_->check_finalized();
  } catch (const c10::Error& error) {
    std::istringstream numbers(unused_numbers(error));
    std::string names;
    for (size_t index = 0; numbers >> index;)
      if (index < parameters_.size()) names += (names.empty() ? "" : ", ") + parameters_[index].name;
    throw std::runtime_error("ddp: this rank's loss did not use every parameter (unused: " + names +
                             "), so their buckets were not reduced. " +
                             (options_.static_graph
                                  ? "With ddp.static_graph=on every step must use the same parameters as the first."
                                  : "Use --param ddp.find_unused=on."));
  }
}

// Charges the wait for reductions to the communication phase. Torch's timer uses the wall clock. If the wait is longer
// than the backward phase, the clock was changed, and the wait is ignored. On a GPU the wait stays in the backward
// phase, because reading the timer would make the host wait for the GPU.
void Reduction::charge_waiting(Phases& phases, at::Device device) {
  if (!phases.on()) return;
  const auto now = Phases::Clock::now();
  const auto waited = timed_ && device.is_cpu() ? reducer_->after_computing() : std::chrono::nanoseconds(0);
  if (waited < now - phases.since()) phases.move(Phase::communication, now - waited, now);
  // Makes torch's timer run in every pass; the default is every 100th.
  if (!timed_) reducer_->set_ddp_runtime_logging_sample_rate(1);
  timed_ = true;
}

// Returns a number for each parameter: 0 if no rank used the parameter in this step. With ddp.find_unused, all ranks
// sum these numbers. Called on a rank without samples, which used no parameter, so its numbers are 0.
at::Tensor Reduction::used_on_any_rank() {
  std::vector<at::Tensor> used = {at::zeros_like(reducer_->get_local_used_map_on_device())};
  group_->allreduce(used)->wait();
  return used[0].cpu();
}

void Reduction::without_rows_backward() {
  const at::NoGradGuard no_grad;
  auto buckets = reducer_->get_grad_buckets(/*return_zero_tensors=*/true);
  for (auto& bucket : buckets) reducer_->run_comm_hook(bucket)->waitAndThrow();
  const at::Tensor used = options_.find_unused ? used_on_any_rank() : at::Tensor();
  for (const auto& bucket : buckets) {
    const auto reduced = bucket.getGradients();
    const auto parameters = bucket.getParameters();
    for (size_t i = 0; i < reduced.size(); ++i) {
      const auto mine = std::find_if(parameters_.begin(), parameters_.end(),
                                     [&](const Parameter& known) { return known.tensor.is_same(parameters[i]); });
      check(mine != parameters_.end(), "ddp: a bucket holds a parameter that is not in the model");
      if (used.defined() && used[mine - parameters_.begin()].item<int>() == 0) continue;
      at::Tensor& gradient = at::Tensor(parameters[i]).mutable_grad();
      const at::Tensor whole = in_layout_of(parameters[i], reduced[i]);
      if (gradient.defined())
        gradient.copy_(whole);
      else
        gradient = whole.clone();
    }
  }
  reducer_->push_rebuilt_params_for_all_indices();
}

}  // namespace dpbench::ddp
