// Messages between the hosts of a group through its store, beside their connections: they arrive while a connection
// waits and after it broke.
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

  // For all ranks, the group is over. Returns why: what the first to give up said.
  std::string give_up(const std::string& reason);
  // The same, for one who has lost touch: the reason that another gives within this time; empty if none does.
  std::string reason(Milliseconds within = {});
  bool note(const std::string& key);  // false where the store does not answer
  void forget(const std::vector<std::string>& keys);
  std::optional<bool> is_noted(const std::string& key);  // nothing where the store does not say

  // While a group forms, when the store must answer.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key) { return store_->get_to_str(key); }
  // Until somebody sets the key; false when the time is up. Throws the reason when a rank gives up.
  bool wait_for(const std::string& key, Milliseconds limit);

 private:
  using Question = std::function<std::string(c10d::Store&)>;
  std::optional<std::string> ask(Question question);

  c10::intrusive_ptr<c10d::Store> store_;
  // A question is unanswered: its host is gone, or the way there, or it is slow. Of the threads that ask too.
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace dpbench
