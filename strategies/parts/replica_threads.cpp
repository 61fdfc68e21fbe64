#include "strategies/parts/replica_threads.h"

#include <new>
#include <stdexcept>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "strategies/comm/base/spin_pause.h"
#include "workloads/base/cores.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Returns how often a waiting thread checks its condition before it sleeps. A step has several waits, and each wake-up
// of a sleeping thread would cost more than a small step. Returns 0 if there are more replicas than cores: a spinning
// thread could then take the core of the replica that it waits for.
int spins_of(int replicas) { return replicas <= usable_cores() ? 4000 : 0; }

void wait_while(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    spin_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ReplicaThreads::ReplicaThreads(int replicas) : spins_(spins_of(replicas)), errors_(static_cast<size_t>(replicas)) {
  // Sets the number of intra-op threads of each new thread to the caller's, because the default is one per core.
  const int intra_op = at::get_num_threads();
  for (int replica = 1; replica < replicas; ++replica)
    threads_.emplace_back([this, replica, intra_op] {
      at::set_num_threads(intra_op);
      serve(replica);
    });
}

ReplicaThreads::~ReplicaThreads() {
  stop_ = true;
  ++round_;
  round_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ReplicaThreads::run(int active, const std::function<void(int)>& work) {
  work_ = &work;
  active_ = active;
  grad_mode_ = at::GradMode::is_enabled();
  pending_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  attempt(0);
  for (uint32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;) wait_while(pending_, left, spins_);
  rethrow();
}

void ReplicaThreads::serve(int replica) {
  for (uint32_t seen = 0;; ++seen) {
    wait_while(round_, seen, spins_);
    if (stop_) return;
    attempt(replica);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void ReplicaThreads::attempt(int replica) {
  auto& error = errors_[static_cast<size_t>(replica)];
  error = nullptr;
  if (replica >= active_) return;
  try {
    const at::AutoGradMode mode(grad_mode_);
    (*work_)(replica);
  } catch (...) {
    error = std::current_exception();
  }
}

void ReplicaThreads::rethrow() const {
  for (size_t replica = 0; replica < errors_.size(); ++replica) {
    if (!errors_[replica]) continue;
    const std::string who = "replica " + std::to_string(replica);
    try {  // rethrows an error with its own type, because callers handle out-of-memory errors differently
      std::rethrow_exception(errors_[replica]);
    } catch (const std::bad_alloc&) {
      throw OutOfHostMemory(who);
    } catch (const UnsuitableModel& error) {
      throw UnsuitableModel(who + ": " + error.what());
    } catch (const UsageError& error) {
      throw UsageError(who + ": " + error.what());
    } catch (const Unavailable& error) {
      throw Unavailable(who + ": " + error.what());
    } catch (c10::Error& error) {
      error.add_context("in " + who);
      throw;
    } catch (const std::exception& error) {
      throw std::runtime_error(who + ": " + error.what());
    }
  }
}

}  // namespace dpbench
