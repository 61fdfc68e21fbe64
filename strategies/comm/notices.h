// What the hosts of a group say to each other through its store, beside their connections: it gets there while these
// wait, and after they broke.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dpbench {

class Notices {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit Notices(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  // For all ranks, the group is over. Returns why: what the first to give up said.
  std::string give_up(const std::string& reason) noexcept;
  // The same, for one who has lost touch: the reason that another gives within this time; empty if none does.
  std::string reason(Milliseconds within = {}) noexcept;

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key) { return store_->get_to_str(key); }
  bool has(const std::string& key) { return store_->check({key}); }
  // Until somebody sets the key; false when the time is up. Throws the reason when a rank gives up.
  bool wait_for(const std::string& key, Milliseconds limit);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace dpbench
