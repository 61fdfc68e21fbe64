// The interface of a workload: a model, its data and its loss. Independent of ranks, devices and timing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "workloads/api/optimizer_spec.h"
#include "workloads/base/kinds.h"
#include "workloads/base/registry.h"

namespace dpbench {

struct Batch {
  at::Tensor input, target;
  at::Tensor ids;  // int64: index in the data set of each sample in `input`
  int64_t rows() const { return ids.size(0); }
};

// Everything a forward pass may depend on besides its samples. With these values, a dropout mask is the same however
// samples are split between replicas.
struct Context {
  uint64_t seed = 0;
  int64_t step = 0;
  at::Tensor ids;
};

class Model : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input, const Context& context) = 0;
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual int64_t samples() const = 0;
  // Returns a new model. Pure: it uses its own random generator, so the same seed gives the same bits in any process
  // and thread.
  virtual std::shared_ptr<Model> model(uint64_t seed) const = 0;
  // Returns the mean loss over the samples, or the sum if sum_loss() is true.
  virtual at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const = 0;
  virtual bool sum_loss() const { return false; }
  virtual OptimizerSpec optimizer() const = 0;
  // Returns these training samples as CPU tensors; floating-point ones are float32. Pure and thread-safe, as is loss():
  // the same ids give the same samples in any process and thread.
  virtual Batch batch(const at::Tensor& ids) const = 0;
  // Generates or decompresses these samples ahead of batch(), so that the ranks of a host can share them. Never timed.
  virtual void prepare(const at::Tensor& /*ids*/) const {}
  // Number of samples reserved for evaluation.
  virtual int64_t test_samples() const { return 0; }
  virtual Batch test_batch(const at::Tensor& ids) const;
};

struct WorkloadOptions {
  int64_t scale = 1;  // factor on the model's width and depth; 1 is the original model
  // If true, the model uses softplus, for checks in which ReLU's kink would amplify rounding errors.
  bool smooth = false;
  std::string data_dir = {};  // directory of MNIST's four IDX files; if empty, synthetic digits are drawn
  // Directory of this run where ranks of a host share samples; if empty, each process has its own samples.
  std::string shared_dir = {};
};

// Returns options.scale (the flag --scale). Throws UsageError if it is out of range.
int64_t checked_scale(const WorkloadOptions& options);

// Default settings of the command `train` for a workload.
struct Recipe {
  int64_t epochs = 2;
  bool shuffle = true;  // if true, samples are shuffled again in every epoch
};

struct WorkloadInfo {
  std::string name, summary;
  Scaling scaling = Scaling::weak;  // default scaling, as in the example program that the workload reproduces
  int64_t batch = 64;  // default batch size: of all devices for strong scaling, per device for weak scaling
  std::function<std::unique_ptr<Workload>(const WorkloadOptions&)> make;
  // True for a probe (a test model of the conformance suite), which the command `run` does not list.
  bool probe = false;
  // True for a probe that the conformance suite runs on every backend and in every scenario, even in its short form,
  // which skips slow scenarios for other workloads.
  bool thorough = false;
  Recipe recipe = {};
  // True if the workload reads the IDX files of --data, which are then checked before anything runs.
  bool digits = false;
};

Registry<WorkloadInfo>& workload_registry();

struct RegisterWorkload {
  explicit RegisterWorkload(WorkloadInfo info);
};

}  // namespace dpbench
