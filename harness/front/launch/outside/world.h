// Rank 0's connection to the ranks that an outside launcher has started: their placement, messages and heartbeats.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/front/launch/outside/relay_process.h"

namespace dpbench {

// Besides the messages below, fronts exchange heartbeats {"do":"alive"} and {"alive":true}.
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
//                   {"rank":1,"group":"NAME","line":".."}                 a message of its worker
//                   {.., "death":STATUS,"why":".."} {.., "words":".."} {.., "offence":".."} {.., "state":[..]}
//                   (rank_state.h)
//                   {.., "closed":["complaint",..]}
//                   {"rank":1,"signal":15} {"rank":1,"gone":"why"}        it received a signal; it failed
class World {
 public:
  World(const std::string& worker_program, const Placement& placement, double timeout_s);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Placement& placement() const { return placement_; }
  int descriptor() const { return relay_.descriptor(); }
  int ranks() const { return placement_.world; }

  // Waits for the hello of every rank. Throws std::runtime_error naming the missing ranks.
  void gather(const Json& own_hello);
  // Returns a rank's description of itself and its host.
  const Json& hello(int rank) const { return hellos_[static_cast<size_t>(rank)]; }
  // Returns the host of each rank; empty if all ranks share one host.
  std::vector<std::string> names_of_hosts() const;
  // Returns the private directory of a rank's host, which is that of the host's local rank 0.
  std::string directory_of(int rank) const;

  void tell(int rank, const Json& message) { relay_.send(rank, message); }
  void tell_others(const Json& message);
  // Returns the messages received so far, and sends heartbeats. Throws if the other ranks are out of reach.
  std::vector<Json> receive();
  // Sends heartbeats and handles signals of the other ranks while they are idle.
  void keep_alive();
  // Returns the ranks that have failed or have sent nothing for silent_seconds, each with the reason.
  std::map<int, std::string> gone() const;

  // True if the parent process has exited.
  bool launcher_is_gone() const;

  // Ends the run on all ranks with this exit code.
  void end(int code);

 private:
  void record_hello(const Json& message);

  Placement placement_;
  double timeout_s_;
  pid_t parent_;
  RelayProcess relay_;
  std::vector<Json> hellos_;
  std::vector<double> last_heard_;
  std::map<int, std::string> gone_reasons_;
  double alive_sent_at_ = 0;
  bool ended_ = false;
};

// Returns the report's block of hosts: name, ranks, fingerprint, processor, cores, memory, GPUs.
Json hosts_block(const World& world);

}  // namespace dpbench
