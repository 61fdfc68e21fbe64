// Protocol between the front (the dpbench process) and a worker (the process of one rank): one JSON object per line,
// over a socket pair that the worker inherits (DPBENCH_FD).
//
// The messages between the front and a worker, each with its meaning:
//   front -> every rank   {"do":"block","case":{..},"sampling":{..},"check":true}
//                           runs one block; the case stays set up for the next one; may have fields of "end", too
//                         {"do":"end","case":{..},"sampling":{..},"last_steps":true,"blocks":[1,2],"retake":true,
//                          "profile":true}
//                           after the last block: audits and profiles the case and answers with the record of these
//                           blocks, numbered from 0; "last_steps":false: audits the last steps only by chance,
//                           otherwise at least one of them (older workers always); retake: repeats a profile that other
//                           programs disturbed; "profile":false: no profile (older workers profile all the same)
//                         {"do":"check","case":{..},"filter":"RE","seeds":1,"whole_worlds":0,"dump":"DIR"}
//                           checks the case with this number of seeds; whole_worlds: worlds of at most this size run
//                           the costly scenarios on every workload; dump: directory for the ranks' tensors; empty: none
//                         {"do":"train","case":{..},"train":{..}}
//                           trains the case to the end, with these options
//                         {"do":"quit"}                    ends the worker
//   rank -> front         {"event":"ready","rank":0,"pid":1,"versions":{..}}                versions of the loaded
//                                                                                         CUDA and NCCL libraries
//                         {"event":"ran","case":"ID","record":{..},"checks":[..],"means":".."}
//                                                                                         checks: only from rank 0
//                         {"event":"checked","case":"ID","checks":[..],"refused":"none|scenario|model"}
//                                                                                         checks: only from rank 0
//                           "refused" in "checked": what the strategy refused to run: nothing, at least one scenario,
//                           or the case's kind of model
//                           "means" in "ran": what a step does with the gradient, e.g. "batch mean"
//                           "untimed":true in "ran": the checks failed, so nothing was timed
//                           "group_over":true in "ran" and "checked": a check broke the process group and nothing was
//                           timed; the next case needs new processes
//                           "failed":{"kind":..,"reason":..} in "ran": an error in the checks that would have failed
//                           the timed steps too
//                           "calls":[{"group":0,"count":0,"hash":0}] in "ran" and "trained": number and hash of the
//                           collectives of each group of this rank during this command, after its checks; must be
//                           equal on all ranks of the group
//                         {"event":"checking","case":"ID","number":4,"of":8}              only from rank 0: a scenario
//                                                                                         of the checks begins; 0 of
//                                                                                         0: the checks are over
//                         {"event":"line","case":"ID","text":".."}                        only from rank 0, in training
//                         {"event":"progress","case":"ID","epoch":0,"epochs":2,"step":1,"steps":9,"loss":..,
//                          "samples_per_s":..,"left_s":..}                                only from rank 0
//                         {"event":"trained","case":"ID","record":{..},"checks":[..],"training":{..}}
//                         {"event":"failed","case":"ID","rank":0,
//                          "kind":"usage|unavailable|oom|nan|unwritten|peer|failure","reason":".."}
//
// The environment variables of a worker process, each with its meaning:
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//                                  as torchrun sets them
//   DPBENCH_FD                     file descriptor of the socket to the front
//   DPBENCH_RUN_DIR                private directory of the run: rendezvous file, shared memory, shared samples
//   DPBENCH_GROUP, DPBENCH_NONCE   prefixes of keys in the ranks' rendezvous store; the nonce has 128 random bits
//   DPBENCH_STORE                  HOST:PORT of the rendezvous store under an external launcher (torchrun, ...); else
//                                  empty
//   DPBENCH_SERVES                 1: this relay process (dpbench-worker --relay) serves that store
//   DPBENCH_SETTINGS               the group's ProcessSettings, as JSON
//   DPBENCH_BACKEND, DPBENCH_DEVICE, DPBENCH_THREADS, DPBENCH_RUNTIME
//                                  read only without DPBENCH_SETTINGS, which older builds do not know
//   DPBENCH_TIMEOUT_S              timeout of the rendezvous and of collectives, in seconds
//   DPBENCH_PLUGINS                paths of the plug-ins, separated by ':'
//   DPBENCH_PROGRESS               file with a `Progress` per rank, then a `CallLog` per rank; older workers ignore
//                                  the logs
//   DPBENCH_CORES                  the cores of all ranks on this host, separated by ','. Set if each rank is bound
//                                  to its share of the cores
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/report/record/case.h"

namespace dpbench {

using Json = nlohmann::ordered_json;

struct TrainOptions;
struct TrainingRecord;

Json to_json(const ProcessSettings& settings);
Json to_json(const CaseSpec& spec);
Json to_json(const Sampling& sampling);
Json to_json(const RankRecord& record);
Json to_json(const CheckRow& row);
Json to_json(const TrainOptions& options);
Json to_json(const TrainingRecord& record);
ProcessSettings process_settings_from_json(const Json& json, const std::string& path);
CaseSpec case_from_json(const Json& json);
Sampling sampling_from_json(const Json& json);
RankRecord rank_record_from_json(const Json& json);
void require_times(const RankRecord& record);  // throws UsageError if one of the record's times is below 1 ns
CheckRow check_row_from_json(const Json& json);
TrainOptions train_options_from_json(const Json& json);
TrainingRecord training_record_from_json(const Json& json);

// The reason why a rank stopped a case. Ranks never send `death`, `killed_for_memory` or `offence`; the front (the
// dpbench process) detects these.
enum class FailureKind { usage, unavailable, oom, nan, unwritten, peer, failure, death, killed_for_memory, offence };
template <>
inline constexpr auto enum_names<FailureKind> = std::to_array<std::string_view>(
    {"usage", "unavailable", "oom", "nan", "unwritten", "peer", "failure", "death", "killed for memory", "offence"});

// Messages from a rank to the front (the dpbench process).
enum class Event { ready, ran, checking, checked, line, progress, trained, failed };
template <>
inline constexpr auto enum_names<Event> =
    std::to_array<std::string_view>({"ready", "ran", "checking", "checked", "line", "progress", "trained", "failed"});
// Commands from the front (the dpbench process) to a rank.
enum class Order { block, end, check, train, quit };
template <>
inline constexpr auto enum_names<Order> = std::to_array<std::string_view>({"block", "end", "check", "train", "quit"});

// Kinds of values of a strategy's parameter, as the catalogue names them. A choice is written as its words:
// "fp16|bf16".
enum class ParamKind { text, flag, integer, number, choice };
template <>
inline constexpr auto enum_names<ParamKind> =
    std::to_array<std::string_view>({"text", "on|off", "integer", "number", "choice"});

// Limits for a JSON document. Memory is counted while parsing, because a hostile text can hold a list in every three
// bytes, and each list takes 80 bytes. For reports, find_run.cpp sets a lower memory limit.
struct JsonLimits {
  size_t bytes = size_t{512} << 20, depth = 64, memory = size_t{1536} << 20;
  size_t keys = size_t{1} << 17;  // maximum number of keys per object
};
// Parses JSON from a protocol line or the text of a file. Rejects invalid UTF-8, NaN, duplicate keys and documents
// beyond the limits. Throws a UsageError that begins with `what`.
Json parse_json(const std::string& text, const std::string& what, const JsonLimits& limits = {});

// A rank's heartbeat, in memory shared with the front (the dpbench process). If the ranks hang, the others wait for the
// rank with the lowest step or, among equal steps, the lowest `beat`. Checks have no steps to count.
struct alignas(64) Progress {
  static constexpr int64_t in_checks = -1;  // value of `step` while checks run
  std::atomic<int64_t> step{0};
  // Counter that changes with any progress of the rank: a collective called, or a part of its work done. While a Python
  // interpreter loads the rank's libraries, it counts down with each imported module; it is 0 again when the rank joins
  // the others.
  std::atomic<int64_t> beat{0};
  std::atomic<int64_t> collectives{0};  // collectives that the process has called, quoted in failure messages
  // Text packed into 40 bytes: in checks, the part that runs, e.g. "step 1 of scenario even"; in a step, the action
  // that the strategy has named, e.g. "1F3 (stage 1, micro-batch 3)". Empty if there is none, and from older workers.
  std::array<std::atomic<uint64_t>, 5> place{};
};
static_assert(sizeof(Progress) == 64, "older and newer builds share this page");

// Number and hash of the collectives that a rank called in one process group.
struct CallDigest {
  int64_t count = 0;
  uint64_t hash = 0;  // hash of the descriptions of all collectives that the rank called in the group, in their order

  bool operator==(const CallDigest&) const = default;
};

// Log entry of one collective call of a rank. Other processes may read it while it is being written: `number` is 0
// while the entry is unused or incomplete.
struct alignas(64) CallSlot {
  static constexpr size_t words = 5;
  std::atomic<int64_t> number{0};  // number of the call in its process group, from 1
  std::atomic<uint64_t> group{0};  // hash of the process group's name; 0: the group of all ranks
  // Hash of this call and all calls of the group before it. If two ranks' hashes differ, the ranks made different
  // calls.
  std::atomic<uint64_t> hash{0};
  // Description of the call, such as "allreduce of 12 Float (sum)", truncated to fit.
  std::array<std::atomic<uint64_t>, words> text{};
};
// store_text() writes a text as atomic words, truncated to fit, and load_text() reads it. Words are stored with release
// and loaded with acquire order, so a reader that sees a new word of a log entry also sees that the entry's number has
// changed.
void store_text(std::span<std::atomic<uint64_t>> words, std::string_view text);
std::string load_text(std::span<const std::atomic<uint64_t>> words);

// Log of a rank's latest eight collectives. Unused if the backend itself compares the ranks' calls.
struct CallLog {
  std::array<CallSlot, 8> slots{};
};

}  // namespace dpbench
