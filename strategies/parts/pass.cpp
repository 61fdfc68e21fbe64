#include "strategies/parts/pass.h"

#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"

namespace dpbench::dp {
namespace {

class PlainPass : public Pass {
 public:
  explicit PlainPass(const Replica& replica) : replica_(replica) {}

  void load(int64_t step, const Batch& rows, bool) override {
    step_ = step;
    rows_ = replica_.to_device(rows);
  }
  at::Tensor forward() override {
    output_ = replica_.forward(step_, std::exchange(rows_, {}));
    return output_.detach();
  }
  void backward(const at::Tensor& slope, bool) override {
    dpbench::backward(std::exchange(output_, {}), slope.to(replica_.device()));
  }

 private:
  const Replica& replica_;
  int64_t step_ = 0;
  Batch rows_;
  at::Tensor output_;
};

}  // namespace

std::unique_ptr<Pass> plain_pass(const Replica& replica) { return std::make_unique<PlainPass>(replica); }

void run_lone_passes(const Passes& passes, int active, ReplicaThreads& threads,
                     const std::function<void(size_t)>& work) {
  for (int i = 0; i < active; ++i)
    if (const auto index = static_cast<size_t>(i); passes[index]->runs_alone())
      threads.run(active, [&](int thread) {
        if (thread == i) work(index);
      });
}

}  // namespace dpbench::dp
