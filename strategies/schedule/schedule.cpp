#include "strategies/schedule/schedule.h"

#include <algorithm>

namespace dpbench::pipeline {

std::vector<int> looped_placement(int ranks, int chunks) {
  std::vector<int> rank_of;
  for (int stage = 0; stage < ranks * chunks; ++stage) rank_of.push_back(stage % ranks);
  return rank_of;
}

std::vector<int> vee_placement(int ranks) {
  std::vector<int> rank_of;
  for (int stage = 0; stage < 2 * ranks; ++stage) rank_of.push_back(stage < ranks ? stage : 2 * ranks - 1 - stage);
  return rank_of;
}

bool has_transfers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list,
                               [](const Action& action) { return is_send(action.kind) || is_receive(action.kind); });
  });
}

bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& action) { return action.kind == Kind::input_gradient; });
  });
}

Schedule without_transfers(const Schedule& schedule) {
  Schedule compute = schedule;
  for (auto& list : compute.ranks) std::erase_if(list, [](const Action& action) { return !is_compute(action.kind); });
  return compute;
}

Channel channel_of(const Action& transfer) {
  const int stage = transfer.stage;
  switch (transfer.kind) {
    case Kind::send_activation:
      return {Kind::send_activation, stage, stage + 1};
    case Kind::receive_activation:
      return {Kind::send_activation, stage - 1, stage};
    case Kind::send_gradient:
      return {Kind::send_gradient, stage, stage - 1};
    default:
      return {Kind::send_gradient, stage + 1, stage};
  }
}

Action counterpart(const Action& transfer) {
  const Channel channel = channel_of(transfer);
  const Kind receive = channel.send == Kind::send_activation ? Kind::receive_activation : Kind::receive_gradient;
  if (is_send(transfer.kind)) return {.kind = receive, .stage = channel.to, .microbatch = transfer.microbatch};
  return {.kind = channel.send, .stage = channel.from, .microbatch = transfer.microbatch};
}

std::string described(const Channel& channel) {
  return (channel.send == Kind::send_activation ? "activations" : "gradients") + std::string(" from stage ") +
         std::to_string(channel.from) + " to stage " + std::to_string(channel.to);
}

}  // namespace dpbench::pipeline
