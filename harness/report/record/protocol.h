// What the front and a worker say to each other: one JSON object a line, over a socket pair the worker inherits
// (DPBENCH_FD).
//
//   front -> every rank   {"do":"run","case":{..},"sampling":{..},"launch":0,"check":true}
//                         {"do":"check","case":{..},"filter":"RE","seeds":1,"whole_worlds":0}
//                         {"do":"train","case":{..},"train":{..}}
//                         {"do":"block",..as for run..}   one sample; the case stays ready for the next one
//                         {"do":"quit"}
//   rank -> front         {"event":"ready","rank":0,"pid":1,"versions":{..}}                versions: of what CUDA's
//   library loaded
//                         {"event":"ran","case":"ID","record":{..},"checks":[..]}         checks: rank 0 alone
//                         {"event":"checked","case":"ID","checks":[..]}                   rank 0 alone fills it
//                         "group_over":true in these two: a check broke the group; nothing was timed, start another
//                         "failed":{"kind":..,"reason":..} in "ran": what its checks met would have failed the timed
//                         steps too "calls":{"count":0,"hash":0} in "ran" and "trained": the collectives since its
//                         checks, which all ranks share
//                         {"event":"line","case":"ID","text":".."}                        rank 0 alone, while it trains
//                         {"event":"progress","case":"ID","epoch":0,"epochs":2,"step":1,"steps":9,"loss":..,
//                          "samples_per_s":..,"left_s":..}                                rank 0 alone
//                         {"event":"trained","case":"ID","record":{..},"checks":[..],"training":{..}}
//                         {"event":"failed","case":"ID","rank":0,"kind":"usage|unavailable|oom|nan|unwritten|peer|failure","reason":".."}
//
// Variables of a worker: RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE, DPBENCH_FD, DPBENCH_RUN_DIR (private directory of
// the run: the rendezvous file "store", segments, shared rows), DPBENCH_GROUP and DPBENCH_NONCE (128 random bits;
// prefixes of this group's keys), DPBENCH_BACKEND, DPBENCH_DEVICE, DPBENCH_THREADS, DPBENCH_TIMEOUT_S, DPBENCH_PLUGINS
// (':' between), DPBENCH_PROGRESS (file of `Progress`, by rank; behind them, which older workers do not know, of
// `CallLog`), DPBENCH_CORES (',' between: those of all ranks of this host, where each was started on its share of
// them).
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/report/record/case.h"

namespace dpbench {

using Json = nlohmann::ordered_json;

struct TrainOptions;
struct TrainingRecord;

Json to_json(const CaseSpec& spec);
Json to_json(const Sampling& sampling);
Json to_json(const RankRecord& record);
Json to_json(const CheckRow& row);
Json to_json(const TrainOptions& options);
Json to_json(const TrainingRecord& record);
CaseSpec case_from_json(const Json& json);
Sampling sampling_from_json(const Json& json);
RankRecord rank_record_from_json(const Json& json);
void require_times(const RankRecord& record);  // throws UsageError for a time below 1 ns
CheckRow check_row_from_json(const Json& json);
TrainOptions train_options_from_json(const Json& json);
TrainingRecord training_record_from_json(const Json& json);

// Why a rank could not go on with a case. The last three are never sent: the front finds them.
enum class FailureKind { usage, unavailable, oom, nan, unwritten, peer, failure, death, killed_for_memory, offence };
template <>
inline constexpr auto enum_names<FailureKind> = std::to_array<std::string_view>(
    {"usage", "unavailable", "oom", "nan", "unwritten", "peer", "failure", "death", "killed for memory", "offence"});

// What a rank says to the front, and what the front asks of it.
enum class Event { ready, ran, checked, line, progress, trained, failed };
template <>
inline constexpr auto enum_names<Event> =
    std::to_array<std::string_view>({"ready", "ran", "checked", "line", "progress", "trained", "failed"});
enum class Order { run, check, train, block, quit };
template <>
inline constexpr auto enum_names<Order> = std::to_array<std::string_view>({"run", "check", "train", "block", "quit"});

// A hostile text of the largest size holds a list in every three bytes, each of which takes 80: memory is counted while
// it is read. A report of that size takes half of it.
struct JsonLimits {
  size_t bytes = size_t{512} << 20, depth = 64, memory = size_t{1536} << 20,
         keys = size_t{1} << 17;  // keys: of an object
};
// Parses one line of the protocol or a file's text: rejects what is not UTF-8, NaN, duplicate keys, what is beyond
// limits.
Json parse_json(const std::string& text, const std::string& what, const JsonLimits& limits = {});

// A rank's sign of life, in a page that the front maps: whoever has the smallest (step, beat) is the one that is stuck.
struct alignas(64) Progress {
  std::atomic<int64_t> step{0};
  std::atomic<int64_t> beat{0};         // any advance at all: a collective entered, a phase done
  std::atomic<int64_t> collectives{0};  // entered since the start: the number that failures name
};

// One collective of a rank, written while others may look: number is 0 meanwhile, and before the first.
struct alignas(64) CallSlot {
  static constexpr size_t words = 6;
  std::atomic<int64_t> number{0};
  std::atomic<uint64_t> hash{
      0};  // of this call and all before it: ranks whose hashes differ have called different things
  std::array<std::atomic<uint64_t>, words> text{};  // as in "allreduce of 12 Float (sum)", cut to what fits
};
// Each word is stored behind what was stored before it, and loaded ahead of what is loaded after it: a reader that
// meets a new word then finds that the number has changed.
void put_text(CallSlot& slot, std::string_view text);
std::string text_of(const CallSlot& slot);

// A rank's latest, each at its number's place; none where the backend compares the ranks' calls itself.
struct CallLog {
  std::array<CallSlot, 8> slots{};
};

}  // namespace dpbench
