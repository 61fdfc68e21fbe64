// Rules about the transfers and reductions of a pipeline schedule. A schedule without sends and receives may also lack
// reductions, because lower() adds both.
#include <algorithm>
#include <map>
#include <set>

#include "strategies/schedule/verify.h"

namespace dpbench::pipeline {
namespace {

using Places = std::map<Action, std::vector<size_t>>;

Places places_in(const std::vector<Action>& list) {
  Places places;
  for (size_t i = 0; i < list.size(); ++i) {
    Action action = list[i];
    action.overlaps_next = false;
    places[action].push_back(i);
  }
  return places;
}

// Returns why the transfer is impossible (its stages do not exist or are not neighbours on two ranks); an empty string
// if it is possible.
std::string no_channel(const Schedule& schedule, const Action& transfer) {
  const Channel channel = channel_of(transfer);
  if (channel.from < 0 || channel.to < 0 || std::max(channel.from, channel.to) >= schedule.stages() ||
      schedule.is_last(std::min(channel.from, channel.to)))
    return "there is no stage on the other side";
  const int rank = schedule.rank_of[channel.from];
  return rank == schedule.rank_of[channel.to] ? "both stages lie on rank " + std::to_string(rank) : "";
}

class TransferRules {
 public:
  explicit TransferRules(const Schedule& schedule) : schedule_(schedule), explicit_(has_transfers(schedule)) {
    for (const auto& list : schedule.ranks) places_.push_back(places_in(list));
  }

  std::vector<Fault> run() {
    for (int rank = 0; rank < schedule_.world(); ++rank)
      for (const auto& [action, at] : places_[rank])
        if (is_send(action.kind) || is_receive(action.kind)) check_transfer(rank, action, at);
    for (int stage = 0; explicit_ && stage < schedule_.stages(); ++stage)
      for (int i = schedule_.first_microbatch(stage); i < schedule_.end_microbatch(stage); ++i) check_sent(stage, i);
    for (int stage = 0; stage < schedule_.stages(); ++stage) check_gradient_reduction(stage);
    check_tied_reductions();
    return std::move(faults_);
  }

 private:
  void add(Rule rule, int rank, std::optional<size_t> position, const Action& action, const std::string& why) {
    faults_.push_back({rule, rank, position, action, why});
  }

  const std::vector<size_t>* find(const Action& action) const {
    const Places& places = places_[schedule_.rank_of[action.stage]];
    const auto found = places.find(action);
    return found == places.end() ? nullptr : &found->second;
  }

  // Returns the position, in the list of the transfer's own rank, of the computation that makes the tensor to be sent,
  // or that uses the received tensor.
  size_t computation_at(const Action& transfer) const {
    const bool forward = transfer.kind == Kind::send_activation || transfer.kind == Kind::receive_activation;
    Action work{.kind = forward ? Kind::forward : Kind::full_backward,
                .stage = transfer.stage,
                .microbatch = transfer.microbatch};
    if (!find(work)) work.kind = Kind::input_gradient;
    return find(work)->front();
  }

  void check_transfer(int rank, const Action& action, const std::vector<size_t>& at) {
    if (const std::string why = no_channel(schedule_, action); !why.empty())
      return add(Rule::unpaired_transfer, rank, at[0], action, why);
    const Action other = counterpart(action);
    const int peer = schedule_.rank_of[other.stage];
    if (at.size() > 1) add(Rule::unpaired_transfer, rank, at[1], action, "it is transferred twice");
    if (!find(other))
      add(Rule::unpaired_transfer, rank, at[0], action, "rank " + std::to_string(peer) + " has no " + text_of(other));
    const size_t work = computation_at(action);
    if (is_send(action.kind) ? at[0] < work : at[0] > work)
      add(Rule::transfer_order, rank, at[0], action,
          std::string(is_send(action.kind) ? "the computation comes later" : "the computation comes before it") +
              ", as action " + std::to_string(work));
  }

  void check_sent(int stage, int microbatch) {
    for (const Kind kind : {Kind::send_activation, Kind::send_gradient}) {
      if (kind == Kind::send_activation ? !schedule_.sends_activation(stage) : !schedule_.sends_gradient(stage))
        continue;
      const Action send{.kind = kind, .stage = stage, .microbatch = microbatch};
      if (!find(send) && !find(counterpart(send)))
        add(Rule::unpaired_transfer, schedule_.rank_of[stage], std::nullopt, send, "it is neither sent nor received");
    }
  }

  size_t last_weight_gradient(int stage) const {
    const std::vector<Action>& list = schedule_.ranks[schedule_.rank_of[stage]];
    size_t last = 0;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].stage == stage && ends_weight_gradient(list[i].kind)) last = i;
    return last;
  }

  void check_gradient_reduction(int stage) {
    const Action reduction{.kind = Kind::reduce_gradients, .stage = stage};
    const std::vector<size_t>* at = find(reduction);
    if (!at) return;
    const int rank = schedule_.rank_of[stage];
    if (at->size() > 1) add(Rule::gradient_reduction, rank, (*at)[1], reduction, "the stage is reduced twice");
    if (const size_t last = last_weight_gradient(stage); at->front() < last)
      add(Rule::gradient_reduction, rank, at->front(), reduction,
          "a weight gradient comes later, as action " + std::to_string(last));
  }

  void check_tied_reductions() {
    std::set<Action> wanted;
    for (const auto& group : schedule_.ties) {
      std::map<int, std::vector<int>> stages_of_rank;
      for (const int stage : group) stages_of_rank[schedule_.rank_of[stage]].push_back(stage);
      for (const auto& [rank, stages] : stages_of_rank) {
        const Action reduction{.kind = Kind::reduce_tied, .stage = std::ranges::min(stages)};
        wanted.insert(reduction);
        check_tied_reduction(rank, reduction, stages);
      }
    }
    for (int rank = 0; rank < schedule_.world(); ++rank)
      for (const auto& [action, at] : places_[rank])
        if (action.kind == Kind::reduce_tied && !wanted.contains(action))
          add(Rule::tied_reduction, rank, at[0], action, "no tie has it as its first stage on this rank");
  }

  void check_tied_reduction(int rank, const Action& reduction, const std::vector<int>& stages) {
    const std::vector<size_t>* at = find(reduction);
    if (!at && !explicit_) return;
    if (!at) return add(Rule::tied_reduction, rank, std::nullopt, reduction, "the shared parameters are never summed");
    if (at->size() > 1) add(Rule::tied_reduction, rank, (*at)[1], reduction, "the shared parameters are summed twice");
    for (const int stage : stages)
      if (const size_t last = last_weight_gradient(stage); at->front() < last)
        add(Rule::tied_reduction, rank, at->front(), reduction,
            "a weight gradient of stage " + std::to_string(stage) + " comes later, as action " + std::to_string(last));
  }

  const Schedule& schedule_;
  bool explicit_;  // true if the schedule has its own send and receive actions
  std::vector<Places> places_;
  std::vector<Fault> faults_;
};

// The sends and receives of one channel, in the order in which their ranks perform them.
struct Ends {
  std::vector<Action> sends, receives;
  std::vector<size_t> received_at;
};

std::map<Channel, Ends> channels(const Schedule& schedule) {
  std::map<Channel, Ends> all;
  for (const auto& list : schedule.ranks)
    for (size_t i = 0; i < list.size(); ++i) {
      if (is_send(list[i].kind)) all[channel_of(list[i])].sends.push_back(list[i]);
      if (!is_receive(list[i].kind)) continue;
      Ends& ends = all[channel_of(list[i])];
      ends.receives.push_back(list[i]);
      ends.received_at.push_back(i);
    }
  return all;
}

size_t consumer_of(const std::vector<Action>& list, const Action& receive) {
  const bool forward = receive.kind == Kind::receive_activation;
  const auto found = std::ranges::find_if(list, [&](const Action& one) {
    const bool kind =
        forward ? one.kind == Kind::forward : one.kind == Kind::full_backward || one.kind == Kind::input_gradient;
    return kind && one.stage == receive.stage && one.microbatch == receive.microbatch;
  });
  return static_cast<size_t>(found - list.begin());
}

}  // namespace

std::vector<Fault> transfer_faults(const Schedule& schedule) { return TransferRules(schedule).run(); }

std::vector<Fault> channel_faults(const Schedule& schedule) {
  std::vector<Fault> faults;
  for (const auto& [channel, ends] : channels(schedule)) {
    const int rank = schedule.rank_of[channel.to];
    for (size_t i = 0; i < ends.receives.size(); ++i) {
      const Action& receive = ends.receives[i];
      if (ends.sends[i].microbatch != receive.microbatch) {
        faults.push_back({Rule::channel_order, rank, ends.received_at[i], receive,
                          described(channel) + " bring " + text_of(ends.sends[i]) + " here"});
        break;
      }
      const auto slots = static_cast<size_t>(schedule.receive_slots);
      if (slots == 0 || i < slots) continue;
      const size_t consumer = consumer_of(schedule.ranks[rank], ends.receives[i - slots]);
      if (consumer > ends.received_at[i])
        faults.push_back({Rule::receive_slot, rank, ends.received_at[i], receive,
                          "of " + std::to_string(slots) + " slots the oldest holds micro-batch " +
                              std::to_string(ends.receives[i - slots].microbatch) + " until action " +
                              std::to_string(consumer)});
    }
  }
  return faults;
}

}  // namespace dpbench::pipeline
