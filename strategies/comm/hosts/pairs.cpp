#include "strategies/comm/hosts/pairs.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <stdexcept>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace dpbench {
namespace {

using Milliseconds = std::chrono::milliseconds;
using WorkPtr = Pairs::WorkPtr;
using Clock = std::chrono::steady_clock;

// The c10d::Work of a message that may not have started yet.
class LaterWork : public c10d::Work {
 public:
  // what: the message's description for errors. limit: the timeout of wait() if the caller gives none.
  LaterWork(int rank, c10d::OpType type, std::string what, Milliseconds limit)
      : Work(rank, type), what_(std::move(what)), limit_(limit) {}

  void begin(WorkPtr started) { promise_.set_value(std::move(started)); }
  void fail(std::exception_ptr error) { promise_.set_exception(std::move(error)); }

  bool isCompleted() override { return begun(Milliseconds(0)) && (!started() || started()->isCompleted()); }
  bool isSuccess() const override { return begun(Milliseconds(0)) && started() && started()->isSuccess(); }
  std::exception_ptr exception() const override {
    if (!begun(Milliseconds(0))) return nullptr;
    try {
      return future_.get()->exception();
    } catch (...) {
      return std::current_exception();
    }
  }
  bool wait(Milliseconds timeout) override {
    const Milliseconds limit = timeout.count() > 0 ? timeout : limit_;
    const auto deadline = Clock::now() + limit;
    try {
      if (!begun(limit)) throw std::runtime_error("it did not begin within " + std::to_string(limit.count()) + " ms");
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
      return future_.get()->wait(std::max(left, Milliseconds(1)));
    } catch (const std::exception& error) {
      throw std::runtime_error(what_ + ": " + error.what());
    }
  }

 private:
  bool begun(Milliseconds time) const { return future_.wait_for(time) == std::future_status::ready; }
  WorkPtr started() const {
    try {
      return future_.get();
    } catch (...) {
      return {};
    }
  }

  std::string what_;
  Milliseconds limit_;
  std::promise<WorkPtr> promise_;
  std::shared_future<WorkPtr> future_ = promise_.get_future().share();
};

}  // namespace

// Returns the connection to a peer. Connects on the first call. If that fails, later calls fail at once, with the same
// reason.
c10d::Backend& Pairs::connected(int peer, Pair& pair) const {
  if (pair.backend) return *pair.backend;
  if (pair.failure) std::rethrow_exception(pair.failure);
  if (aborted_) throw std::runtime_error("its backend was aborted");
  try {
    pair.backend = connect(peer);
  } catch (...) {
    pair.failure = std::current_exception();
    throw;
  }
  return *pair.backend;
}

c10::intrusive_ptr<c10d::Backend> Pairs::connect(int peer) const {
  const int first = std::min(peer, setup_.rank), second = std::max(peer, setup_.rank);
  BackendSetup both = setup_;
  // Opens a separate connection to the store, because a wait blocks all other users of the same connection.
  both.store = c10::make_intrusive<c10d::PrefixStore>(c10::str("pair-", first, "-", second), setup_.store->clone());
  both.ranks = {setup_.global(first), setup_.global(second)};
  both.rank = setup_.rank == first ? 0 : 1;
  both.world = 2;
  both.local_rank = 0;
  both.local_world = 1;
  both.note = {};
  return backend_registry().at("gloo").make(both);
}

WorkPtr Pairs::post(int peer, c10d::OpType type, const std::string& what, Start start) {
  auto work = c10::make_intrusive<LaterWork>(setup_.rank, type, what, setup_.timeout);
  const std::lock_guard lock(mutex_);
  auto& pair = pairs_[peer];
  if (!pair) pair = std::make_unique<Pair>();
  pair->queue.push([this, peer, work, &own = *pair, start = std::move(start)] {
    try {
      work->begin(start(connected(peer, own)));
    } catch (...) {
      work->fail(std::current_exception());
    }
  });
  return work;
}

WorkPtr Pairs::send(const at::Tensor& tensor, int to, int tag) {
  const auto what = c10::str("send from rank ", setup_.global(setup_.rank), " to rank ", setup_.global(to));
  return post(to, c10d::OpType::SEND, what, [tensor, other = setup_.rank < to ? 1 : 0, tag](c10d::Backend& backend) {
    std::vector<at::Tensor> list = {tensor};
    return backend.send(list, other, tag);
  });
}

WorkPtr Pairs::receive(const at::Tensor& tensor, int from, int tag) {
  const auto what = c10::str("receive of rank ", setup_.global(setup_.rank), " from rank ", setup_.global(from));
  return post(from, c10d::OpType::RECV, what,
              [tensor, other = setup_.rank < from ? 1 : 0, tag](c10d::Backend& backend) {
                std::vector<at::Tensor> list = {tensor};
                return backend.recv(list, other, tag);
              });
}

}  // namespace dpbench
