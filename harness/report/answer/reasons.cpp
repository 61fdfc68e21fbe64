// Explains why a case is slower than another case of its group.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/report/answer/rules.h"
#include "harness/report/answer/words.h"

namespace dpbench {
namespace {

// A part of the step (communication, waiting or computation) explains why a case is slower if it makes up at least this
// share of the difference in time.
constexpr double explaining_share = 0.5;
// Communication counts as not hidden if computing hides less than this share of it.
constexpr double little_overlap = 0.1;
// A GPU with throttled clocks explains why a case is slower if the share of throttled readings exceeds that of the
// faster case by at least this much.
constexpr double much_throttling = 0.2;

// Returns the share of the time difference between `member` and a faster case that one part of the step explains. Times
// are per sample, relative to the faster case.
double explained(const GroupFacts& facts, const RankedCase& member, double (*part)(const StepParts&)) {
  const RankedCase& faster = faster_than(facts, member);
  if (!member.parts || !faster.parts) return 0;
  const double own = speed_ratio(faster, member)->middle;  // the faster case takes 1
  return (part(*member.parts) * own - part(*faster.parts)) / (own - 1);
}

double communication_in(const StepParts& parts) { return parts.communication; }
double waiting_in(const StepParts& parts) { return parts.waiting; }
double computation_in(const StepParts& parts) { return 1 - parts.communication - parts.waiting; }

bool by_communication(const GroupFacts& facts, const RankedCase& member) {
  return explained(facts, member, communication_in) >= explaining_share;
}

// Returns the collective operation that takes more than half of the communication time; empty if there is none or a
// collective has no times.
std::string main_operation(const CaseRecord& record) {
  std::map<std::string, double> times;
  double all = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      for (const CollectiveRecord& one : rank.profile ? rank.profile->collectives : std::vector<CollectiveRecord>()) {
        if (!one.start_ns || !one.end_ns) return "";
        times[one.op] += static_cast<double>(*one.end_ns - *one.start_ns);
        all += static_cast<double>(*one.end_ns - *one.start_ns);
      }
  for (const auto& [op, ns] : times)
    if (ns > explaining_share * all) return op;
  return "";
}

// Returns a text with the shares of the time difference that communication, waiting and computation explain, largest
// first. Called only if each share is below `explaining_share`; the shares are then all positive.
std::string shared_text(const GroupFacts& facts, const RankedCase& member) {
  std::vector<std::pair<double, const char*>> parts = {
      {explained(facts, member, communication_in), "communication that nothing hides"},
      {explained(facts, member, waiting_in), "waiting for other ranks"},
      {explained(facts, member, computation_in), "computation"}};
  std::ranges::sort(parts, std::greater<>());
  std::vector<std::string> words;
  for (const auto& [share, name] : parts)
    words.push_back(percent_text(share) + (words.empty() ? " of that is " : " ") + name);
  return listed(words);
}

bool replays_graph(const CaseRecord& record) { return record.mean_phases_ns().contains("graph"); }

// True if the cases have the same strategy, parameters except `graph`, backend and mesh.
bool same_without_graph(CaseSpec a, CaseSpec b) {
  a.params.erase("graph"), b.params.erase("graph");
  return a.strategy == b.strategy && a.params == b.params && a.backend == b.backend && a.mesh == b.mesh;
}

double throttled(const RankedCase& member) { return member.record->derived.throttled_share.value_or(0); }

std::string against(const GroupFacts& facts, const RankedCase& member, double (*part)(const StepParts&)) {
  return percent_text(part(*member.parts)) + " of its step, against " +
         percent_text(part(*faster_than(facts, member).parts));
}

}  // namespace

const std::vector<AnswerRule>& reason_rules() {
  static const std::vector<AnswerRule> rules = {
      {"straggler", RuleSubject::member,
       [](const GroupFacts&, const RankedCase& member) { return member.record->derived.straggler.has_value(); },
       [](const GroupFacts&, const RankedCase& member) {
         return "rank " + std::to_string(*member.record->derived.straggler) + " is slower than the others";
       }},
      {"throttled", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         return throttled(member) - throttled(faster_than(facts, member)) >= much_throttling;
       },
       [](const GroupFacts& facts, const RankedCase& member) {
         return "its GPUs were throttled in " + percent_text(throttled(member)) + " of the readings, against " +
                percent_text(throttled(faster_than(facts, member)));
       }},
      {"no-graph", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         const CaseRecord& faster = *faster_than(facts, member).record;
         return same_without_graph(faster.spec, member.record->spec) && replays_graph(faster) &&
                !replays_graph(*member.record);
       },
       [](const GroupFacts& facts, const RankedCase& member) {
         return "it launches each operation, while " + faster_than(facts, member).label + " replays a recorded step";
       }},
      {"exposed-copies", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         return member.record->spec.backend == no_backend && by_communication(facts, member);
       },
       [](const GroupFacts& facts, const RankedCase& member) {
         return "copying between its devices is " + against(facts, member, communication_in);
       }},
      {"exposed-operation", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         const auto overlap = member.record->derived.overlap;
         return by_communication(facts, member) && overlap && *overlap < little_overlap &&
                !main_operation(*member.record).empty();
       },
       [](const GroupFacts&, const RankedCase& member) {
         return "its " + main_operation(*member.record) + " is not hidden";
       }},
      {"exposed-communication", RuleSubject::member, by_communication,
       [](const GroupFacts& facts, const RankedCase& member) {
         return "communication that nothing hides is " + against(facts, member, communication_in);
       }},
      {"waiting", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         return explained(facts, member, waiting_in) >= explaining_share;
       },
       [](const GroupFacts& facts, const RankedCase& member) {
         return "waiting for other ranks is " + against(facts, member, waiting_in);
       }},
      {"computation", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         return explained(facts, member, computation_in) >= explaining_share;
       },
       [](const GroupFacts&, const RankedCase&) { return std::string("its computation takes longer"); }},
      {"several-parts", RuleSubject::member,
       [](const GroupFacts& facts, const RankedCase& member) {
         return member.parts && faster_than(facts, member).parts;
       },
       shared_text},
      {"untimed-on-gpu", RuleSubject::member,
       [](const GroupFacts&, const RankedCase& member) {
         return member.record->spec.device == Device::cuda && member.record->spec.backend != no_backend;
       },
       [](const GroupFacts&, const RankedCase&) {
         return std::string(
             "the parts of its steps are unknown, because collectives on a GPU are not timed (--trace "
             "shows them)");
       }},
      {"no-parts", RuleSubject::member, [](const GroupFacts&, const RankedCase&) { return true; },
       [](const GroupFacts&, const RankedCase&) { return std::string("the parts of its steps are unknown"); }},
  };
  return rules;
}

}  // namespace dpbench
