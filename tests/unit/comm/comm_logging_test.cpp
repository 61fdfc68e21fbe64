// LoggingBackend<B> logs a line of text for each collective and forwards it to B, a PyTorch backend. The tests check
// the lines, with a B that does nothing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/comm/base/logging_backend.h"

namespace dpbench::testing {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

class NoOpBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Backend::Backend;
  uint64_t getSequenceNumberForGroup() override { return 0; }
  WorkPtr allgather(Lists&, Tensors&, const c10d::AllgatherOptions&) override { return {}; }
  WorkPtr reduce_scatter(Tensors&, Lists&, const c10d::ReduceScatterOptions&) override { return {}; }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const c10d::AllToAllOptions&) override {
    return {};
  }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return {}; }
};

class LoggedCalls : public ::testing::Test {
 protected:
  LoggedCalls() {
    backend_->log_calls([this](const StartedCall& call) {
      if (call.text == "barrier" && fails_) throw std::runtime_error("cannot log");
      calls_.emplace_back(call.text);
    });
  }
  const c10::intrusive_ptr<LoggingBackend<NoOpBackend>> backend_ =
      c10::make_intrusive<LoggingBackend<NoOpBackend>>(0, 2);
  std::vector<std::string> calls_;
  bool fails_ = false;
};

TEST_F(LoggedCalls, AllRanksLogTheTotalSizeWhenTheirTensorSizesDiffer) {
  for (const int64_t own : {3, 5}) {  // number of elements in this rank's own tensor: 3 as rank 0, 5 as rank 1
    Lists pieces{{at::ones(3), at::ones(5)}};
    Tensors own_piece{at::ones(own)};
    backend_->allgather(pieces, own_piece, {});
    backend_->reduce_scatter(own_piece, pieces, {});
  }
  const std::string gathered = "allgather of 8 Float", scattered = "reduce_scatter of 8 Float (sum)";
  EXPECT_EQ(calls_, (std::vector<std::string>{gathered, scattered, gathered, scattered}));
}

TEST_F(LoggedCalls, TheSizeOfTheRanksOwnTensorIsLoggedWhenTheTensorListIsEmpty) {
  Lists none;
  Tensors own_piece{at::ones(3)};
  backend_->allgather(none, own_piece, {});
  backend_->reduce_scatter(own_piece, none, {});
  EXPECT_EQ(calls_, (std::vector<std::string>{"allgather of 3 Float", "reduce_scatter of 3 Float (sum)"}));
}

TEST_F(LoggedCalls, AnAllToAllIsLoggedWithoutItsSizesWhichMayDifferBetweenRanks) {
  at::Tensor received = at::ones(3), sent = at::ones(5);
  std::vector<int64_t> received_sizes{1, 2}, sent_sizes{1, 4};
  backend_->alltoall_base(received, sent, received_sizes, sent_sizes, {});
  EXPECT_EQ(calls_, std::vector<std::string>{"alltoall"});
}

TEST_F(LoggedCalls, LaterCallsAreLoggedAfterALoggingError) {
  fails_ = true;
  EXPECT_THROW(backend_->barrier({}), std::runtime_error);
  fails_ = false;
  backend_->barrier({});
  EXPECT_EQ(calls_, std::vector<std::string>{"barrier"});
}

}  // namespace
}  // namespace dpbench::testing
