// Rank 0's view of the ranks that an outside launcher has started: what they are, what they say, and that they are
// there.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/front/launch/outside/relay_process.h"

namespace dpbench {

// Between fronts, beside what is below: {"do":"alive"} and {"alive":true}, so that silence means something.
inline constexpr double alive_every_seconds = 2, silent_seconds = 10;

enum class AgentOrder { alive, open, tell, quit, kill, end };
template <>
inline constexpr auto enum_names<AgentOrder> =
    std::to_array<std::string_view>({"alive", "open", "tell", "quit", "kill", "end"});

// rank 0 -> agent   {"do":"open","spec":{..},"timeout_s":30,"directory":"/dev/shm/.."}
//                   {"do":"tell","group":"NAME","message":{..}}          to its worker
//                   {"do":"quit"|"kill","group":"NAME"}
//                   {"do":"end","code":0}                                 the run is over
// agent -> rank 0   {"rank":1,"hello":{..}}
//                   {"rank":1,"group":"NAME","line":".."}                 what its worker said
//                   {.., "death":STATUS,"why":".."} {.., "words":".."} {.., "offence":".."} {.., "state":[..]}
//                   (rank_state.h)
//                   {.., "closed":["complaint",..]}
//                   {"rank":1,"signal":15} {"rank":1,"gone":"why"}        it has been told to end; it has to
class World {
 public:
  World(const std::string& worker_program, const Placement& placement, double timeout_s);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Placement& placement() const { return placement_; }
  int descriptor() const { return relay_.descriptor(); }
  int ranks() const { return placement_.world; }

  // Waits for a word from every rank. Throws std::runtime_error naming those that are missing.
  void gather(const Json& own_hello);
  // What rank r said of itself and its host.
  const Json& hello(int rank) const { return hellos_[static_cast<size_t>(rank)]; }
  // The host of each rank; empty where all are on one.
  std::vector<std::string> names_of_hosts() const;
  // The private directory of a rank's host: its first rank's.
  std::string directory_of(int rank) const;

  void tell(int rank, const Json& message) { relay_.send(rank, message); }
  void tell_others(const Json& message);
  // What has come of a group's ranks. Says now and then that we are alive. Throws when the others are out of reach.
  std::vector<Json> receive();
  // While they have nothing to do: that we are here, and whether they are to end.
  void stay_in_touch();
  // Ranks whose fronts are there no more, or have said nothing for silent_seconds, and which of it.
  std::map<int, std::string> gone() const;

  // Whoever started us is there no more.
  bool launcher_is_gone() const;

  // The run is over, and this is how.
  void end(int code);

 private:
  void note(const Json& message);

  Placement placement_;
  double timeout_s_;
  pid_t parent_;
  RelayProcess relay_;
  std::vector<Json> hellos_;
  std::vector<double> heard_;
  std::map<int, std::string> last_words_;
  double said_alive_ = 0;
  bool ended_ = false;
};

// The report's block of hosts: name, ranks, fingerprint, processor, cores, memory, GPUs.
Json hosts_block(const World& world);

}  // namespace dpbench
