// A workload whose model, loss and samples are written in Python. Every strategy can train it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "strategies/python/call.h"
#include "workloads/api/workload.h"

namespace dpbench::python {

// A model that shares its parameters and buffers with a Python module, under the same names.
class PythonModel : public Model {
 public:
  PythonModel(int64_t workload, uint64_t seed, bool smooth);
  ~PythonModel() override;
  at::Tensor forward(const at::Tensor& input, const Context& context) override;
  void train(bool on = true) override;
  int64_t id() const { return id_; }

 private:
  int64_t id_ = 0;
};

class PythonWorkload : public Workload {
 public:
  struct Numbers {
    int64_t id = 0, samples = 0, test_samples = 0;
    bool smooth = false;
  };
  PythonWorkload(const Numbers& numbers, OptimizerSpec optimizer) : numbers_(numbers), optimizer_(optimizer) {}
  int64_t samples() const override { return numbers_.samples; }
  int64_t test_samples() const override { return numbers_.test_samples; }
  std::shared_ptr<Model> model(uint64_t seed) const override;
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override;
  OptimizerSpec optimizer() const override { return optimizer_; }
  Batch batch(const at::Tensor& ids) const override;
  Batch test_batch(const at::Tensor& ids) const override;

 private:
  Numbers numbers_;
  OptimizerSpec optimizer_;
};

}  // namespace dpbench::python
