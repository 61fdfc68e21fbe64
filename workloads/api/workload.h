// What is trained: a model, its data, its loss. Knows nothing of ranks, devices or time.
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
  at::Tensor ids;  // int64: which samples these rows are
  int64_t rows() const { return ids.size(0); }
};

// All that a forward pass may depend on besides its rows: so a dropout mask is the same however rows are shared out.
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
  // Pure: a generator of its own, so the same seed gives the same bits in any process and thread.
  virtual std::shared_ptr<Model> model(uint64_t seed) const = 0;
  // The mean over the rows of the output, unless the workload says otherwise with sum_loss().
  virtual at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const = 0;
  virtual bool sum_loss() const { return false; }
  virtual OptimizerSpec optimizer() const = 0;
  // Pure: the same ids are the same rows in any process and thread, two at once included, as with loss(). CPU tensors,
  // floating point in float32.
  virtual Batch batch(const at::Tensor& ids) const = 0;
  // Makes the rows of these ids quick to get (drawn, decompressed, shared by the host's ranks). Never timed.
  virtual void prepare(const at::Tensor& /*ids*/) const {}
  // The rows kept apart for evaluation: none by default.
  virtual int64_t test_samples() const { return 0; }
  virtual Batch test_batch(const at::Tensor& ids) const;
};

struct WorkloadOptions {
  int64_t scale = 1;            // width and depth of the model, 1 = as in the documents
  bool smooth = false;          // softplus for ReLU: the twin that the oracle judges where a kink would flip
  std::string data_dir = {};    // four IDX files; empty = drawn digits
  std::string shared_dir = {};  // directory private to the run where ranks of a host share rows; empty = own memory
};

// Throws UsageError where --scale is not one that every workload accepts.
int64_t checked_scale(const WorkloadOptions& options);

// How `train` runs the workload unless it is told otherwise.
struct Recipe {
  int64_t epochs = 2;
  bool shuffle = true;  // anew in every epoch
};

struct WorkloadInfo {
  std::string name, summary;
  Scaling scaling = Scaling::weak;  // what the documents do
  int64_t batch = 64;               // strong: the global batch, weak: rows per device
  std::function<std::unique_ptr<Workload>(const WorkloadOptions&)> make;
  bool probe = false;     // made for the conformance suite alone: `run` does not list it
  bool thorough = false;  // a probe that the short form of the suite spares nothing: every backend, every scenario
  Recipe recipe = {};
  bool digits = false;  // reads --data's IDX files, which are then looked at before anything runs
};

Registry<WorkloadInfo>& workload_registry();

struct RegisterWorkload {
  explicit RegisterWorkload(WorkloadInfo info);
};

}  // namespace dpbench
