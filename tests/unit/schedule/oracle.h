// Judges schedules without any code of the verifier. The oracle executes the action lists with symbolic values in place
// of tensors. It compares the resulting weight gradients, and the order of forward passes and input gradients, with
// those of one device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "strategies/schedule/schedule.h"

namespace dpbench::pipeline {

class SymbolicRun {
 public:
  SymbolicRun(const Schedule& schedule, bool buffered)
      : schedule_(schedule), buffered_(buffered), at_(schedule.world(), 0) {}

  // Returns true if all ranks finish the schedule, and each stage has run its forward passes and input gradients, and
  // added the correct weight gradients, in ascending micro-batch order.
  bool is_right() {
    bool moved = true;
    while (moved && !wrong_) {
      moved = false;
      for (int rank = 0; rank < schedule_.world() && !wrong_; ++rank)
        while (!wrong_ && step(rank)) moved = true;
    }
    for (int rank = 0; rank < schedule_.world(); ++rank)
      if (wrong_ || at_[rank] < schedule_.ranks[rank].size()) return false;
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      if (added_[stage] != right_gradients(stage) || !std::ranges::is_sorted(forwards_[stage]) ||
          !std::ranges::is_sorted(backwards_[stage]))
        return false;
    return true;
  }

 private:
  using Key = std::pair<int, int>;  // stage and micro-batch

  static uint64_t mixed(uint64_t value, int stage, uint64_t salt) {
    return (value ^ (salt + 1)) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(stage) * 0xD1B54A32D192ED03ull;
  }
  uint64_t activation(int stage, int microbatch) const {
    const int first = stage - stage % schedule_.stages_per_pipeline();
    uint64_t value = static_cast<uint64_t>(microbatch) + 1;
    for (int i = first; i <= stage; ++i) value = mixed(value, i, 1);
    return value;
  }
  uint64_t gradient(int stage, int microbatch) const {
    int last = stage;
    while (!schedule_.is_last(last)) ++last;
    uint64_t value = activation(last, microbatch);
    for (int i = last; i >= stage; --i) value = mixed(value, i, 2);
    return value;
  }
  std::vector<uint64_t> right_gradients(int stage) const {
    std::vector<uint64_t> all;
    for (int i = schedule_.first_microbatch(stage); i < schedule_.end_microbatch(stage); ++i)
      all.push_back(gradient(stage, i));
    return all;
  }

  bool is_here(int stage, int rank) const { return schedule_.rank_of[stage] == rank; }

  std::optional<uint64_t> take(std::map<Key, uint64_t>& from, Key key) {
    const auto found = from.find(key);
    if (found == from.end()) return std::nullopt;
    const uint64_t value = found->second;
    from.erase(found);
    return value;
  }

  bool compute(const Action& action) {
    const int s = action.stage, i = action.microbatch;
    if (action.kind == Kind::forward) {
      const bool first = schedule_.is_first(s);
      const auto input = first ? std::optional<uint64_t>(i + 1) : take(inputs_, {s, i});
      if (!input || outputs_.contains({s, i})) return false;
      outputs_[{s, i}] = mixed(*input, s, 1);
      forwards_[s].push_back(i);
      if (schedule_.is_last(s))
        output_gradients_[{s, i}] = outputs_[{s, i}];
      else if (is_here(s + 1, schedule_.rank_of[s]))
        inputs_[{s + 1, i}] = outputs_[{s, i}];
      return true;
    }
    if (action.kind != Kind::weight_gradient) {
      const auto output = take(output_gradients_, {s, i});
      if (!output || !outputs_.contains({s, i})) return false;
      input_gradients_[{s, i}] = mixed(*output, s, 2);
      backwards_[s].push_back(i);
      if (!schedule_.is_first(s) && is_here(s - 1, schedule_.rank_of[s]))
        output_gradients_[{s - 1, i}] = input_gradients_[{s, i}];
    }
    if (action.kind != Kind::input_gradient) {
      if (!input_gradients_.contains({s, i})) return false;
      added_[s].push_back(input_gradients_[{s, i}]);
    }
    return true;
  }

  bool step(int rank) {
    if (at_[rank] == schedule_.ranks[rank].size()) return false;
    const Action& action = schedule_.ranks[rank][at_[rank]];
    if (is_receive(action.kind)) {
      auto& queue = channels_[channel_of(action)];
      if (queue.empty()) return false;
      auto& into = action.kind == Kind::receive_activation ? inputs_ : output_gradients_;
      into[{action.stage, action.microbatch}] = queue.front();
      queue.pop_front();
    } else if (is_send(action.kind)) {
      const auto& from = action.kind == Kind::send_activation ? outputs_ : input_gradients_;
      const auto value = from.find({action.stage, action.microbatch});
      if (value == from.end()) return !(wrong_ = true);
      const Channel channel = channel_of(action);
      if (!buffered_ && !peer_receives(channel)) return false;
      channels_[channel].push_back(value->second);
    } else if (is_compute(action.kind) && !compute(action)) {
      return !(wrong_ = true);
    }
    ++at_[rank];
    return true;
  }

  // Returns true if the receiver of a channel waits for a tensor: its next action is a receive on this channel, and the
  // channel is empty.
  bool peer_receives(const Channel& channel) {
    const int peer = schedule_.rank_of[channel.to];
    if (at_[peer] == schedule_.ranks[peer].size() || !channels_[channel].empty()) return false;
    const Action& other = schedule_.ranks[peer][at_[peer]];
    return is_receive(other.kind) && channel_of(other) == channel;
  }

  const Schedule& schedule_;
  bool buffered_, wrong_ = false;
  std::vector<size_t> at_;
  std::map<Channel, std::deque<uint64_t>> channels_;
  std::map<Key, uint64_t> inputs_, outputs_, output_gradients_, input_gradients_;
  std::map<int, std::vector<uint64_t>> added_;
  std::map<int, std::vector<int>> forwards_, backwards_;  // micro-batches of each stage, in the order in which they ran
};

}  // namespace dpbench::pipeline
