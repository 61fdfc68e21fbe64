// A plug-in with the backend "wrong-sums". It has one collective: an allreduce over shm, after which rank 0's first
// element is 1 too large.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/api/backend.h"

namespace {

using namespace dpbench;

class WrongSums : public c10d::Backend {
 public:
  explicit WrongSums(const BackendSetup& setup)
      : Backend(setup.rank, setup.world), right_(backend_registry().at("shm").make(setup)) {}

  const std::string getBackendName() const override { return "wrong-sums"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    auto work = right_->allreduce(tensors, options);
    work->wait();
    if (getRank() == 0) tensors[0].view(-1)[0].add_(1);
    return work;
  }

 private:
  c10::intrusive_ptr<c10d::Backend> right_;
};

const RegisterBackend wrong_sums{
    {.name = "wrong-sums", .summary = "wrong in one element", .make = [](const BackendSetup& setup) {
       return c10::make_intrusive<WrongSums>(setup);
     }}};

}  // namespace
