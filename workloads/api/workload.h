// The workload interface: a model, its data and its loss. Independent of ranks, devices and timing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "workloads/base/kinds.h"
#include "workloads/base/registry.h"

namespace dpbench {

struct Batch {
  at::Tensor input, target;
  at::Tensor ids;  // int64: the sample id of each row
  int64_t rows() const { return ids.size(0); }
};

// Everything a forward pass may depend on besides its samples. A dropout mask is therefore the same for every sharding.
struct Context {
  uint64_t seed = 0;
  int64_t step = 0;
  at::Tensor ids;
};

class Model : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input, const Context& context) = 0;
};

struct OptimizerSpec {
  enum class Kind { sgd, adam };
  Kind kind = Kind::sgd;
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam only
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual int64_t samples() const = 0;
  // Pure: uses its own generator, so the same seed gives the same bits in any process and thread.
  virtual std::shared_ptr<Model> model(uint64_t seed) const = 0;
  // The mean over the samples, or their sum if sum_loss() is true.
  virtual at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const = 0;
  virtual bool sum_loss() const { return false; }
  virtual OptimizerSpec optimizer() const = 0;
  // Pure and thread-safe, as is loss(): the same ids give the same samples in any process and thread. Returns CPU
  // tensors, floating point in float32.
  virtual Batch batch(const at::Tensor& ids) const = 0;
  // Generates or decompresses these samples ahead of batch(), shared by the ranks of a host. Never timed.
  virtual void prepare(const at::Tensor& /*ids*/) const {}
  // Number of samples reserved for evaluation.
  virtual int64_t test_samples() const { return 0; }
  virtual Batch test_batch(const at::Tensor& ids) const;
};

struct WorkloadOptions {
  int64_t scale = 1;            // width and depth of the model; 1 is the original
  bool smooth = false;          // softplus instead of ReLU, for checks that ReLU's kink would upset
  std::string data_dir = {};    // directory of the four IDX files; empty: drawn digits
  std::string shared_dir = {};  // per-run directory where ranks of a host share samples; empty: private memory
};

// Returns --scale. Throws UsageError if it is out of range.
int64_t checked_scale(const WorkloadOptions& options);

// Defaults of `train` for the workload.
struct Recipe {
  int64_t epochs = 2;
  bool shuffle = true;  // once per epoch
};

struct WorkloadInfo {
  std::string name, summary;
  Scaling scaling = Scaling::weak;  // as in the original program
  int64_t batch = 64;               // strong: the global batch; weak: samples per device
  std::function<std::unique_ptr<Workload>(const WorkloadOptions&)> make;
  bool probe = false;     // used by the conformance suite only; `run` does not list it
  bool thorough = false;  // a probe that runs on every backend and in every scenario even in the short suite
  Recipe recipe = {};
  bool digits = false;  // reads the IDX files of --data, which are checked before anything runs
};

Registry<WorkloadInfo>& workload_registry();

struct RegisterWorkload {
  explicit RegisterWorkload(WorkloadInfo info);
};

}  // namespace dpbench
