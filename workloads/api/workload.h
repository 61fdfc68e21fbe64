// The interface of a workload: a model, its data and its loss. A workload does not depend on ranks, devices or timing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "workloads/api/optimizer_spec.h"
#include "workloads/api/sequence_split.h"
#include "workloads/base/kinds.h"
#include "workloads/base/registry.h"

namespace dpbench {

struct Batch {
  at::Tensor input, target;
  at::Tensor ids;  // for each sample in `input`, its index in the data set, as int64
  int64_t samples() const { return ids.size(0); }
};

// All inputs of a forward pass besides the samples. A dropout mask that is computed from them does not depend on how
// samples are split between replicas.
struct Context {
  uint64_t seed = 0;
  int64_t step = 0;
  at::Tensor ids;
  ModelSplit split = {};  // how this rank exchanges data with other ranks under tensor, context and expert parallelism
};

// A part of a model: a function of the previous block's output, and the layers that hold its parameters and buffers. A
// tied parameter lies in the layers of several blocks.
struct Block {
  std::string name;
  std::vector<std::shared_ptr<torch::nn::Module>> layers;
  std::function<at::Tensor(at::Tensor x, const Context& context)> forward;
};

// A model that strategies may divide is a list of blocks: its constructor calls add_block(). Any other model overrides
// forward().
class Model : public torch::nn::Module {
 public:
  // Runs all blocks.
  virtual at::Tensor forward(const at::Tensor& input, const Context& context);
  // Runs the blocks first .. last - 1. x: the output of the block before them, or the input.
  at::Tensor forward_span(size_t first, size_t last, at::Tensor x, const Context& context);
  // Returns how many blocks, from `first` on, forward_span(first, last) recomputes together in the backward pass; 0 if
  // it keeps the activations of all these blocks.
  size_t recomputed_blocks(size_t first, size_t last) const;
  // The blocks in the order of the forward pass. Empty if the model cannot be divided.
  const std::vector<Block>& blocks() const { return blocks_; }
  // Returns how the model is cut for tensor parallelism over this many ranks. Blocks of a model that can be cut must
  // use Context::split.
  // The default is an empty plan: the model cannot be divided. Throws UsageError if the model can be divided, but not
  // among this many ranks or not with its settings (such as experts).
  virtual TensorPlan tensor_plan(int /*ranks*/) const { return {}; }
  // Returns the properties of the model that context parallelism needs. The default: the model's samples are not
  // sequences. Throws UsageError if settings of the model (such as experts) exclude context parallelism.
  virtual SequencePlan sequence_plan() const { return {}; }
  // Returns how the model's experts are cut for expert parallelism over this many ranks. The default is an empty plan:
  // the model has no experts. Throws UsageError if there are fewer experts than ranks.
  virtual ExpertPlan expert_plan(int /*ranks*/) const { return {}; }
  // Turns recomputation on: divides the model into spans of this many blocks. Of each span except the last, forward()
  // keeps only the input, and the backward pass runs the span again. The last span keeps all its activations. 0: no
  // recomputation.
  void recompute(int64_t blocks) { recompute_ = blocks; }
  int64_t recompute() const { return recompute_; }

 protected:
  void add_block(Block block) { blocks_.push_back(std::move(block)); }

 private:
  std::vector<Block> blocks_;
  int64_t recompute_ = 0;
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
  // True if the model and the loss are smooth functions even without WorkloadOptions::smooth. Rounding errors are then
  // not amplified by a kink such as ReLU's, or by a choice such as that of an expert.
  virtual bool is_smooth() const { return false; }
  // Under tensor and context parallelism, each rank may have only a part of the output of the model's last block. Two
  // functions then replace loss() and the output: split_loss() returns the loss and joined_output() the whole output,
  // equal on all ranks. output: this rank's part of the output. target: targets of whole sequences. Only the loss has a
  // gradient.
  virtual at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& /*split*/) const {
    return loss(output, target);
  }
  virtual at::Tensor joined_output(const at::Tensor& output, const ModelSplit& /*split*/) const { return output; }
  // Returns the class that each output of the model predicts, if the targets are classes.
  virtual at::Tensor predicted(const at::Tensor& output) const { return output.argmax(-1); }
  // Returns the number of terms over which loss() averages in this batch: one per sample, unless a sample has several
  // terms, such as one per token.
  virtual int64_t loss_terms(const Batch& batch) const { return batch.samples(); }
  virtual OptimizerSpec optimizer() const = 0;
  // Returns the training samples with these ids as CPU tensors; floating-point tensors are float32. batch() and loss()
  // are pure and thread-safe: the same ids give the same samples in any process and thread.
  virtual Batch batch(const at::Tensor& ids) const = 0;
  // Generates or decompresses the samples with these ids before batch() needs them, so that the ranks of a host can
  // share them. Never timed.
  virtual void prepare(const at::Tensor& /*ids*/) const {}
  // Returns the number of tokens of a sample, or the floating-point operations of a training step on one sample by the
  // model's closed formula; 0 if samples have no tokens, or the model no formula.
  virtual int64_t tokens_per_sample() const { return 0; }
  virtual double flop_per_sample() const { return 0; }
  // Continues a text by `tokens` tokens, drawn with this seed. forward: returns the model's output for a batch of one
  // sample. The default throws UsageError: the workload writes no text.
  using Forward = std::function<at::Tensor(const Batch& batch)>;
  virtual std::string continued(const Forward& forward, int64_t tokens, uint64_t seed) const;
  // Number of samples reserved for evaluation.
  virtual int64_t test_samples() const { return 0; }
  virtual Batch test_batch(const at::Tensor& ids) const;
};

struct WorkloadOptions {
  int64_t scale = 1;       // factor on the model's width and depth; 1 is the original model
  std::string model = {};  // the model's name or shape (the flag --model); if empty, the workload's default
  // If true, the model uses softplus in place of ReLU. In some checks, ReLU's kink would amplify rounding errors.
  bool smooth = false;
  // The flag --data: MNIST's directory, or a file, as the workload defines it; if empty, the built-in samples.
  std::string data_dir = {};
  int64_t recompute = 0;  // the flag --recompute; the harness passes it to Model::recompute()
  // Directory of this run where ranks of a host share samples; if empty, each process has its own samples.
  std::string shared_dir = {};
  uint64_t seed = 0;  // seed of the case; a probe (test model of the checks) may draw its sizes from it
};

// Returns options.scale (the flag --scale). Throws UsageError if it is out of range.
int64_t checked_scale(const WorkloadOptions& options);

// Default settings of the command `train` for a workload.
struct Recipe {
  int64_t epochs = 2;
  bool shuffle = true;  // if true, samples are shuffled again in every epoch
};

// Describes the values of the flag --model.
struct Models {
  std::vector<std::string> names = {};  // predefined models; empty: the workload has a single model
  std::string sizes = {};               // names of the sizes that can be set, for help texts
  std::string for_checks = {};          // the model that `dpbench check` trains if the user does not give --model
  // Groups of small sizes, such as {"layers=1", "layers=3"}. `dpbench check --layouts` makes random models, each with
  // one entry of every group. The first entry of a group is the simplest.
  std::vector<std::vector<std::string>> drawn = {};
};

struct WorkloadInfo {
  std::string name, summary;
  Scaling scaling = Scaling::weak;  // default scaling, as in the example program that the workload reproduces
  int64_t batch = 64;  // default batch size: of all devices for strong scaling, per device for weak scaling
  std::function<std::unique_ptr<Workload>(const WorkloadOptions&)> make;
  // True if the model is written in Python: each rank is then a process with a Python interpreter.
  bool python = false;
  // True for a probe: a test model of the conformance suite, which `run` uses only if --workload names it.
  bool probe = false;
  // True for a probe on which `dpbench check` runs the slow scenarios even without --long, unless the probe has a large
  // parameter tensor. `check` also runs the probe over every backend, as it does with workloads that are not probes. If
  // it draws worlds at random, only one backend runs in the largest world.
  bool thorough = false;
  Recipe recipe = {};
  // True if the workload reads the IDX files of --data, which are then checked before anything runs.
  bool digits = false;
  Models models = {};
  // True if the model or one of `models.drawn` has experts. If `dpbench check` draws its cases, strategies of expert
  // parallelism run on these workloads only.
  bool experts = false;
};

Registry<WorkloadInfo>& workload_registry();

struct RegisterWorkload {
  explicit RegisterWorkload(WorkloadInfo info);
};

}  // namespace dpbench
