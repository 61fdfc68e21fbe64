// One thread per replica of a single-process strategy, kept between steps. The calling thread works as replica 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace dpbench {

class ReplicaThreads {
 public:
  explicit ReplicaThreads(int replicas);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  // Calls work(0) .. work(active - 1), each on its replica's thread with the caller's gradient mode, and waits for all.
  // If calls throw, rethrows the exception of the lowest replica, prefixed with its index.
  void run(int active, const std::function<void(int)>& work);

  // Returns how often a waiting thread spins before it sleeps; 0 if there are more replicas than cores.
  int spins() const { return spins_; }

 private:
  void serve(int replica);
  void attempt(int replica);
  void rethrow() const;

  const int spins_;
  const std::function<void(int)>* work_ = nullptr;
  int active_ = 0;
  bool grad_mode_ = true;
  std::atomic<uint32_t> round_{0}, pending_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace dpbench
