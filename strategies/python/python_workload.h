// A workload whose model, loss and samples are written in Python. Every strategy can train it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/python/call.h"
#include "workloads/api/workload.h"

namespace dpbench::python {

// A model that shares its parameters and buffers with a Python module, under the same names. The blocks of an
// nn.Sequential consist of consecutive children; any other module has no blocks.
class PythonModel : public Model {
 public:
  PythonModel(int64_t workload, uint64_t seed, bool smooth);
  ~PythonModel() override;
  at::Tensor forward(const at::Tensor& input, const Context& context) override;
  void train(bool on = true) override;
  int64_t id() const { return id_; }

 private:
  // Adds a block to the model that calls these child modules of the Python module, one after the other.
  void add_python_block(const std::vector<std::string>& names);

  int64_t id_ = 0;
};

// The optimizer of a workload in Python: an instance of torch.optim.Optimizer that the workload defines.
class PythonOptimizer : public OwnOptimizer {
 public:
  explicit PythonOptimizer(int64_t workload) : workload_(workload) {}
  at::Tensor step(const at::Tensor& parameter, const at::Tensor& gradient, double rate,
                  NamedTensors& state) const override;
  int64_t workload() const { return workload_; }

 private:
  int64_t workload_;
};

class PythonWorkload : public Workload {
 public:
  struct Numbers {
    int64_t id = 0, samples = 0, test_samples = 0;
    bool own_loss_terms = false, smooth = false;
  };
  PythonWorkload(const Numbers& numbers, OptimizerSpec optimizer)
      : numbers_(numbers), optimizer_(std::move(optimizer)) {}
  int64_t id() const { return numbers_.id; }
  int64_t samples() const override { return numbers_.samples; }
  int64_t test_samples() const override { return numbers_.test_samples; }
  std::shared_ptr<Model> model(uint64_t seed) const override;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override;
  OptimizerSpec optimizer() const override { return optimizer_; }
  int64_t loss_terms(const Batch& batch) const override;
  Batch batch(const at::Tensor& ids) const override;
  Batch test_batch(const at::Tensor& ids) const override;

 private:
  Numbers numbers_;
  OptimizerSpec optimizer_;
};

}  // namespace dpbench::python
