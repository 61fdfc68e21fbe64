#include "harness/report/answer/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "harness/report/answer/words.h"
#include "harness/report/figures/derived.h"
#include "harness/report/figures/disturbance.h"

namespace dpbench {
namespace {

constexpr double much_noise = 0.1;
// usual_launches: default of --launches. most_launches: largest value of --launches that a sentence recommends.
constexpr int usual_launches = 5, most_launches = 60;

const Choice& first(const GroupFacts& facts) { return facts.choices.front(); }

int with_speed(const GroupFacts& facts) {
  return static_cast<int>(std::count_if(facts.members.begin(), facts.members.end(),
                                        [](const RankedCase& m) { return m.speed.has_value(); }));
}

std::vector<const RankedCase*> members_where(const GroupFacts& facts,
                                             const std::function<bool(const RankedCase&)>& holds) {
  std::vector<const RankedCase*> found;
  for (const RankedCase& member : facts.members)
    if (holds(member)) found.push_back(&member);
  return found;
}

std::vector<const RankedCase*> tied(const GroupFacts& facts) {
  return members_where(facts, [&](const RankedCase& m) { return facts.choice_of(m).time == Standing::tied; });
}

// Returns the cases on the Pareto front that may be fastest, or that need less memory than the fastest case. Leaves out
// slower cases that are on the front only because their memory is unknown or cannot be compared.
std::vector<const RankedCase*> front(const GroupFacts& facts) {
  const RankedCase& fastest = facts.fastest();
  return members_where(facts, [&](const RankedCase& m) {
    const Choice& choice = facts.choice_of(m);
    const bool smaller = memory_compares(m, fastest) && above(*fastest.memory, *m.memory);
    return choice.on_front && (choice.time != Standing::behind || smaller);
  });
}

std::string world_text(const GroupFacts& facts) {
  const int world = facts.fastest().record->spec.world;
  return world == 1 ? "" : " in a world of " + std::to_string(world);
}

std::string reason_of(const GroupFacts& facts, const RankedCase& member) {
  for (const AnswerRule& rule : reason_rules())
    if (rule.holds(facts, member)) return rule.text(facts, member);
  return "";
}

std::string slower_text(const GroupFacts& facts, const RankedCase& m) {
  const RankedCase& faster = faster_than(facts, m);
  return m.label + " takes " + longer_text(*speed_ratio(faster, m)) +
         (&faster == &facts.fastest() ? "" : " than " + faster.label) + ": " + reason_of(facts, m) + ".";
}

std::string fastest_text(const GroupFacts& facts, const RankedCase& m) {
  return m.label + " is fastest: " + speed_text(facts.report, *m.record, facts.paired) + world_text(facts) + ". " +
         slower_text(facts, facts.members[1]);
}

// True if the sentence about the fastest case already names `m` as the second fastest.
bool is_runner_up(const GroupFacts& facts, const RankedCase& m) {
  return first(facts).time == Standing::best && &m == &facts.members[1];
}

// Returns the largest relative difference in time that the intervals allow between the fastest case and a case tied
// with it.
double tie_bound(const GroupFacts& facts) {
  double most = 0;
  for (const RankedCase* member : tied(facts))
    most = std::max(most, facts.choice_of(*member).time_high.value_or(1) - 1);
  return most;
}

std::string tied_text(const GroupFacts& facts, const RankedCase&) {
  std::vector<std::string> all;
  for (const RankedCase* member : tied(facts))
    all.push_back(member->label +
                  (all.empty() ? " is " + speed_text(facts.report, *member->record, facts.paired) + world_text(facts)
                               : " " + speed_number(facts.report, *member->record, facts.paired)));
  const double bound = tie_bound(facts);
  return listed(all) + ": no difference that this run can tell" +
         (bound < 1 ? " (at most " + percent_text(bound) + ")." : ".");
}

bool below_one_device(const RankedCase& member) {
  const Derived& d = member.record->derived;
  return !member.record->spec.baseline && d.efficiency && d.speedup_high && *d.speedup_high < 1;
}

// Returns the case with the least memory, among the cases with memory figures comparable with those of the fastest
// case.
const RankedCase& least_memory(const GroupFacts& facts) {
  const RankedCase* least = &facts.fastest();
  for (const RankedCase& member : facts.members)
    if (memory_compares(member, *least) && member.memory->middle < least->memory->middle) least = &member;
  return *least;
}

bool compares_memory(const GroupFacts& facts) {
  const RankedCase& fastest = facts.fastest();
  return std::any_of(facts.members.begin(), facts.members.end(),
                     [&](const RankedCase& m) { return &m != &fastest && memory_compares(m, fastest); });
}

// Returns a restriction of sentences about the least memory, if not all cases have memory figures comparable with those
// of the fastest case; else "".
std::string among_comparable_text(const GroupFacts& facts) {
  const auto comparable =
      members_where(facts, [&](const RankedCase& m) { return memory_compares(m, facts.fastest()); });
  if (comparable.size() == facts.members.size()) return "";
  return " among the " + std::to_string(comparable.size()) + " cases with comparable memory";
}

constexpr double most_of_it = 0.5;  // a part of the memory is named if it makes up more than this share of a difference

// Returns a sentence that names the part of the memory (parameters, gradients, state, ...) with most of the difference
// between two cases; empty if there is no such part or the parts are unknown.
std::string saved_part_text(const CaseRecord& least, const CaseRecord& other) {
  const auto mine = largest_memory(least), theirs = largest_memory(other);
  if (!mine || !theirs || mine->total() >= theirs->total()) return "";
  const int64_t difference = *other.derived.peak_memory_bytes - *least.derived.peak_memory_bytes;
  int64_t most = 0;
  std::string text;
  const auto look_at = [&](const auto& field) {
    const int64_t own = (*mine).*field.member, more = (*theirs).*field.member;
    if (more - own <= most) return;
    most = more - own;
    text = std::string(" Most of the difference is in its ") + field.key + ": " + mebibytes_text(own) + " instead of " +
           mebibytes_text(more) + ".";
  };
  std::apply([&](const auto&... field) { (look_at(field), ...); }, Table<MemoryParts>::fields);
  return static_cast<double>(most) > most_of_it * static_cast<double>(difference) ? text : "";
}

std::string less_memory_text(const GroupFacts& facts, const RankedCase& fastest) {
  const RankedCase& least = least_memory(facts);
  const Choice& choice = facts.choice_of(least);
  const std::string time = faster(fastest, least) ? longer_text(*speed_ratio(fastest, least))
                           : choice.time_ratio    ? "no more time that this run can tell"
                                                  : "an unknown time";
  return least.label + " needs " + percent_text(*choice.memory_ratio) + " of " + fastest.label + "'s memory (" +
         range_text_of(*choice.memory_low, *choice.memory_high) + ") and takes " + time + "." +
         saved_part_text(*least.record, *fastest.record);
}

// True for the fastest case and for cases tied with it. The rules about losses against ideal scaling apply only to
// these cases.
bool leads(const GroupFacts& facts, const RankedCase& m) {
  const Standing time = facts.choice_of(m).time;
  return time == Standing::best || time == Standing::tied || facts.members.size() == 1;
}

bool loses(const GroupFacts& facts, const RankedCase& m) {
  const auto loss = facts.choice_of(m).loss;
  return loss && *loss > 0 && m.record->derived.efficiency_high.value_or(0) < 1;
}

std::string loss_text(const GroupFacts& facts, const RankedCase& m) {
  const Choice& choice = facts.choice_of(m);
  const auto& parts = choice.loss_parts;
  const std::string start = m.label + " loses " + percent_text(*choice.loss) + " of its step against ideal scaling: ";
  if (parts.empty()) return start + "the run cannot tell to what, because it has no parts of its steps.";
  std::vector<std::string> pieces;
  const auto add = [&](const char* name, const char* meaning) {
    if (parts.at(name) >= 0.005)
      pieces.push_back(percent_text(parts.at(name)) + (pieces.empty() ? " of that is " : " ") + meaning);
  };
  add("communication", "communication that nothing hides");
  add("waiting", "waiting for other ranks");
  add("computation", "computation that takes longer than on one device");
  return start + listed(pieces) + ".";
}

// True if two cases on the Pareto front of time and memory differ in speed by more than their intervals, so that less
// memory costs time.
bool has_trade_off(const GroupFacts& facts, const RankedCase&) {
  const auto all = front(facts);
  return compares_memory(facts) && std::any_of(all.begin(), all.end(), [&](const RankedCase* a) {
           return std::any_of(all.begin(), all.end(), [&](const RankedCase* b) { return faster(*a, *b); });
         });
}

double ceiling_of(const GroupFacts& facts) {
  return static_cast<double>(cores_of(facts.report)) / facts.fastest().record->spec.threads;
}

std::string ceiling_text(const GroupFacts& facts, const RankedCase& m) {
  char ceiling[32];
  std::snprintf(ceiling, sizeof ceiling, "%.2f", ceiling_of(facts));
  return std::to_string(m.record->spec.world) + " replicas share " + std::to_string(cores_of(facts.report)) +
         " cores, so " + ceiling + "x is the ceiling; " + m.label + " reaches " +
         percent_text(*m.record->derived.speedup / ceiling_of(facts)) + " of it.";
}

std::vector<const RankedCase*> noisy(const GroupFacts& facts) {
  return members_where(facts, [](const RankedCase& m) { return m.record->derived.noise.value_or(0) > much_noise; });
}

std::string noisy_text(const GroupFacts& facts, const RankedCase&) {
  std::vector<std::string> all;
  for (const RankedCase* member : noisy(facts))
    all.push_back(member->label + " (" + percent_text(*member->record->derived.noise) + ")");
  return "Noise widens the intervals of " + listed(all) + ".";
}

// Returns the number of launches with which the interval of a case's time_ratio (time per sample / that of the fastest
// case) would exclude 1, if the ratio itself stays the same. The width of an interval falls with the square root of the
// number of launches. Returns 0 if the ratio is unknown or exactly 1.
double launches_needed(const Choice& choice, int launches) {
  if (!choice.time_ratio || *choice.time_ratio == 1) return 0;
  const double half = std::log(*choice.time_high / *choice.time_low) / 2;
  return std::ceil(launches * std::pow(half / std::log(*choice.time_ratio), 2));
}

int launches_to_decide(const GroupFacts& facts) {
  if (facts.members.size() < 2) return 0;
  if (facts.launches < launches_for_t) return usual_launches;
  double most = 0;
  for (const Choice& choice : facts.choices)
    if (choice.time == Standing::tied)
      if (const double needed = launches_needed(choice, facts.launches); needed <= most_launches)
        most = std::max(most, needed);
  return most > facts.launches ? static_cast<int>(most) : 0;
}

}  // namespace

const RankedCase& faster_than(const GroupFacts& facts, const RankedCase& member) {
  for (const RankedCase& other : facts.members)
    if (faster(other, member)) return other;
  return facts.fastest();
}

const std::vector<AnswerRule>& group_rules() {
  static const std::vector<AnswerRule> rules = {
      {"alone", RuleSubject::group, [](const GroupFacts& f, const RankedCase&) { return f.members.size() == 1; },
       [](const GroupFacts& f, const RankedCase& m) {
         return m.label + " has nothing to be compared with: " + speed_text(f.report, *m.record, f.paired) +
                world_text(f) + ".";
       }},
      {"undecided", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return f.members.size() > 1 && with_speed(f) < 2; },
       [](const GroupFacts& f, const RankedCase&) {
         return launches_text(f.launches) + ", and no blocks paired with those of a reference: too little to rank " +
                std::to_string(f.members.size()) + " cases.";
       }},
      {"fastest", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return first(f).time == Standing::best; }, fastest_text},
      {"tied", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return first(f).time == Standing::tied; }, tied_text},
      {"below-one-device", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) {
         return std::all_of(f.members.begin(), f.members.end(), below_one_device);
       },
       [](const GroupFacts&, const RankedCase&) { return std::string("Nothing here is as fast as one device."); }},
      {"less-memory", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase& m) {
         const RankedCase& least = least_memory(f);
         return &least != &m && above(*m.memory, *least.memory);
       },
       less_memory_text},
      {"least-memory", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return compares_memory(f) && first(f).memory == Standing::best; },
       [](const GroupFacts& f, const RankedCase& m) {
         return m.label + " also needs the least memory" + among_comparable_text(f) + ".";
       }},
      {"tied-memory", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return compares_memory(f) && first(f).memory == Standing::tied; },
       [](const GroupFacts& f, const RankedCase& m) {
         return "Nothing needs less memory than " + m.label + " that this run can tell" + among_comparable_text(f) +
                ".";
       }},
      {"slower", RuleSubject::member,
       [](const GroupFacts& f, const RankedCase& m) {
         return f.choice_of(m).time == Standing::behind && !is_runner_up(f, m);
       },
       slower_text},
      {"loss", RuleSubject::member, [](const GroupFacts& f, const RankedCase& m) { return leads(f, m) && loses(f, m); },
       loss_text},
      {"no-loss", RuleSubject::member,
       [](const GroupFacts& f, const RankedCase& m) { return leads(f, m) && f.choice_of(m).loss && !loses(f, m); },
       [](const GroupFacts&, const RankedCase& m) {
         return m.label + " loses nothing against ideal scaling that this run can tell.";
       }},
      {"ceiling", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase& m) {
         return crowded(m.record->spec, cores_of(f.report)) && m.record->spec.world > 1 && m.record->derived.speedup;
       },
       ceiling_text},
      {"front", RuleSubject::group, has_trade_off,
       [](const GroupFacts& f, const RankedCase&) {
         std::vector<std::string> labels;
         for (const RankedCase* member : front(f)) labels.push_back(member->label);
         return "Choose between " + listed(labels) + ": nothing is better than these in both time and memory.";
       }},
      {"few-launches", RuleSubject::group,
       [](const GroupFacts& f, const RankedCase&) { return with_speed(f) > 1 && f.launches < launches_for_t; },
       [](const GroupFacts& f, const RankedCase&) {
         return "This holds within " + launches_text(f.launches) + "; another one may differ by more.";
       }},
      {"noisy", RuleSubject::group, [](const GroupFacts& f, const RankedCase&) { return !noisy(f).empty(); },
       noisy_text},
      {"decide", RuleSubject::group, [](const GroupFacts& f, const RankedCase&) { return !flags_to_decide(f).empty(); },
       [](const GroupFacts& f, const RankedCase&) { return "To decide more: " + flags_to_decide(f) + "."; }},
  };
  return rules;
}

std::vector<Sentence> sentences_of(const GroupFacts& facts) {
  std::vector<Sentence> sentences;
  for (const AnswerRule& rule : group_rules())
    for (const RankedCase& member : facts.members) {
      if (rule.holds(facts, member)) sentences.push_back({rule.name, rule.text(facts, member)});
      if (rule.subject == RuleSubject::group) break;
    }
  return sentences;
}

std::string flags_to_decide(const GroupFacts& facts) {
  const int launches = launches_to_decide(facts);
  std::string flags = launches > 0 ? "--launches " + std::to_string(launches) : "";
  if (facts.members.size() > 1 && !noisy(facts).empty())
    flags += (flags.empty() ? "" : " ") + std::string("--max-noise 5");
  return flags;
}

}  // namespace dpbench
