// "ddp": one process per rank, c10d::Reducer underneath: what DistributedDataParallel does around it, from C++.
#include <algorithm>
#include <limits>
#include <sstream>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "strategies/trained.h"

namespace dpbench {
namespace {

constexpr double mebibyte = 1024 * 1024;
constexpr size_t broadcast_bytes = 250 * 1024 * 1024;  // what torch's DDP packs into one broadcast

struct Caps {
  int64_t bucket, first;
};

Caps caps_of(const Params& params) {
  const double bucket = params.number("bucket_mb");
  const double first = std::min(bucket, params.number("first_bucket_mb"));
  if (!(first > 0)) throw UsageError("ddp.bucket_mb and ddp.first_bucket_mb must be above 0");
  return {static_cast<int64_t>(bucket * mebibyte), static_cast<int64_t>(first * mebibyte)};
}

class Ddp : public TrainedStrategy {
 public:
  explicit Ddp(const Setup& setup)
      : TrainedStrategy(setup),
        group_(setup.group),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
        broadcast_buffers_(setup.params.flag("broadcast_buffers")),
        bucket_views_(setup.params.flag("gradient_as_bucket_view")),
        buffers_(replica_.buffer_list()) {
    check(group_ != nullptr, "ddp needs a process group, in a world of 1 too");
    for (const Parameter& parameter : replica_.trainable()) trainable_.push_back(parameter.tensor);
    if (trainable_.empty()) throw std::runtime_error("ddp: no parameter of this model requires a gradient");
    c10d::verify_params_across_processes(group_, trainable_, std::nullopt);
    c10d::broadcast_coalesced(group_, replica_.detached(), broadcast_bytes, /*rank=*/0);
    make_reducer(caps_of(setup.params));
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    if (micro.empty()) throw std::runtime_error("ddp: this rank has no rows in step " + std::to_string(step));
    clear_gradients();
    StepResult result;
    for (size_t k = 0; k < micro.size(); ++k) {
      const bool sync = k + 1 == micro.size();  // before the last micro-batch gradients only add up on each rank
      accumulate(result, step, micro[k], micro.size(), sync, phases);
    }
    apply_gradients(phases);
    return result;
  }


 private:
  void make_reducer(Caps caps) {
    // One bucket per dtype until the first backward has shown the order in which gradients get ready.
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(trainable_, {std::numeric_limits<size_t>::max()});
    std::reverse(buckets.begin(), buckets.end());
    std::unordered_map<size_t, std::string> names;
    for (size_t i = 0; i < trainable_.size(); ++i) names[i] = replica_.trainable()[i].name;
    reducer_ = std::make_shared<c10d::Reducer>(
        trainable_, buckets, group_, std::vector<bool>(trainable_.size(), false), caps.bucket,
        /*find_unused_parameters=*/false, bucket_views_, names, caps.first,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
    logger_ = std::make_shared<c10d::Logger>(reducer_);  // must live: the reducer dereferences it unchecked
    reducer_->set_logger(logger_);
    logger_->set_construction_data_and_log("dpbench", {}, -1, broadcast_buffers_, /*has_sync_bn=*/false,
                                           /*static_graph=*/false);
  }

  // Views into buckets are zeroed in place: a gradient that is set to none costs a copy into its bucket each step.
  void clear_gradients() {
    if (!bucket_views_) return replica_.clear_gradients();
    const at::NoGradGuard no_grad;
    gradients_.clear();
    for (const at::Tensor& parameter : trainable_)
      if (parameter.grad().defined()) gradients_.push_back(parameter.grad());
    if (!gradients_.empty()) at::_foreach_zero_(gradients_);
  }

  void accumulate(StepResult& result, int64_t step, const Batch& batch, size_t micros, bool sync, Phases& phases) {
    phases.enter(Phase::data);
    const Batch mine = replica_.to_device(batch);
    phases.enter(Phase::communication);
    if (sync) reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
    broadcast_buffers(sync);
    phases.enter(Phase::forward);
    const at::Tensor output = replica_.forward(step, mine);
    const at::Tensor loss = loss_of(output, mine.target, micros);
    phases.enter(Phase::backward);
    if (sync) reducer_->prepare_for_backward({});
    loss.backward();
    if (sync) refuse_unused_parameters();
    add_micro(result, output, loss);
  }

  // A bucket that waits for such a parameter was never reduced: this step's gradients are this rank's own.
  void refuse_unused_parameters() {
    try {
      reducer_->check_finalized();
    } catch (const c10::Error& error) {
      std::istringstream numbers(std::string(error.what_without_backtrace()).substr(last_colon(error)));
      std::string names;
      for (size_t index = 0; numbers >> index;)
        if (index < trainable_.size()) names += (names.empty() ? "" : ", ") + replica_.trainable()[index].name;
      throw std::runtime_error("ddp: this rank's loss did not use every parameter (unused: " + names +
                               "), so buckets that wait for them were not reduced");
    }
  }

  // torch's message gives the numbers of the parameters after "did not receive grad for rank N:".
  static size_t last_colon(const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const size_t at = text.find(": ", std::min(text.find("did not receive grad"), text.size()));
    return at == std::string::npos ? text.size() : at + 2;
  }

  // As torch: a forward without synchronisation puts the broadcast off to the forward after the next synchronising one.
  void broadcast_buffers(bool sync) {
    const bool due = buffers_due_;
    buffers_due_ = sync;
    if (due && broadcast_buffers_ && !buffers_.empty()) c10d::broadcast_coalesced(group_, buffers_, broadcast_bytes, 0);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Replica replica_;
  bool broadcast_buffers_, bucket_views_;
  bool buffers_due_ = true;
  std::vector<at::Tensor> trainable_, buffers_, gradients_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

const RegisterStrategy ddp{
    {.name = "ddp",
     .summary = "DistributedDataParallel: a process per rank, gradients averaged in buckets during backward",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::mean_of_means,
     .buffers = Buffers::rank0,
     .params = {{"bucket_mb", "25", "cap of a bucket in MiB"},
                {"first_bucket_mb", "1", "cap of the first bucket in MiB, never above bucket_mb"},
                {"broadcast_buffers", "on", "rank 0's buffers are sent to all before each forward"},
                {"gradient_as_bucket_view", "on", "gradients live in their buckets: no copy between them"}},
     .make = make<Ddp>}};

}  // namespace
}  // namespace dpbench
