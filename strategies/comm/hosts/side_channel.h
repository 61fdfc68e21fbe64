// Exchanges failure reasons and flags between the hosts of a group through the rendezvous store. Messages arrive even
// while a connection between hosts blocks, or after it broke.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dpbench {

class SideChannel {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit SideChannel(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  // Makes all ranks fail with this reason, unless a rank gave up earlier with another reason. Returns the reason of the
  // rank that gave up first.
  std::string give_up(const std::string& reason);
  // Waits this long for a rank to give up, and returns that rank's reason. Returns an empty string if no rank gives up
  // or the store does not answer.
  std::string reason(Milliseconds within = {});
  bool set_flag(const std::string& key);  // Sets a flag in the store. Returns false if the store does not answer.
  void clear_flags(const std::vector<std::string>& keys);
  // Returns true if the flag is set in the store; nullopt if the store does not answer.
  std::optional<bool> flag_is_set(const std::string& key);

  // set(), get() and wait_for() are for use while the group forms. They block if the store does not answer.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key) { return store_->get_to_str(key); }
  // Waits until the key is set in the store. Returns false on timeout. If a rank gives up meanwhile, throws that rank's
  // reason.
  bool wait_for(const std::string& key, Milliseconds limit);

 private:
  using Question = std::function<std::string(c10d::Store&)>;
  std::optional<std::string> ask(Question question);

  c10::intrusive_ptr<c10d::Store> store_;
  // True while a query of the store is unanswered. Shared with the threads that run the queries.
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace dpbench
