// The answer of a run: which strategy is fastest, which needs the least memory, the reasons, and how certain each
// statement is. The code in report/answer computes it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "workloads/base/names.h"

namespace dpbench {

// A sentence of the answer and the name of the rule that made it (answer/rules.h).
struct Sentence {
  std::string rule{}, text{};
};

// Name of the rule of the sentences that give the verdict of a run of `tune`.
inline constexpr const char* tune_rule = "tuned";
// Name of the rule of the sentence on disturbed cases and on load by other programs (Report::disturbance).
inline constexpr const char* busy_rule = "busy";

template <>
struct Table<Sentence> {
  using S = Sentence;
  static constexpr const char* name = "sentence";
  static constexpr std::tuple fields{
      Field{"rule", "-", &S::rule, "name of the rule that made the sentence", range::not_empty},
      Field{"text", "-", &S::text, "the sentence", range::not_empty}};
};

// A case's place among comparable cases. best: better than all others. tied: worse than no other case, but not better
// than all. behind: worse than another case. undecided: the run cannot compare it. Differences within the intervals do
// not count.
enum class Standing { best, tied, behind, undecided };
template <>
inline constexpr auto enum_names<Standing> = std::to_array<std::string_view>({"best", "tied", "behind", "undecided"});

// One case of a group of comparable cases. In the field descriptions, "the fastest" is the first case of the group.
struct Choice {
  std::string case_id{}, label{};
  Standing time = Standing::undecided, memory = Standing::undecided;
  std::optional<double> time_ratio{}, time_low{}, time_high{};
  std::optional<double> memory_ratio{}, memory_low{}, memory_high{};
  bool on_front = false;
  std::optional<double> loss{};
  std::map<std::string, double> loss_parts{};
};

template <>
struct Table<Choice> {
  using C = Choice;
  static constexpr const char* name = "choice";
  static constexpr std::tuple fields{
      Field{"case", "-", &C::case_id, "id of the case", range::not_empty},
      Field{"label", "-", &C::label, "strategy, with the settings that distinguish it in the group", range::not_empty},
      Field{"time", "-", &C::time, "place by time per sample"},
      Field{"memory", "-", &C::memory, "place by peak memory, among cases with as many processes"},
      later(Field{"time_ratio", "1", &C::time_ratio, "time per sample / that of the fastest", range::above_zero}),
      later(Field{"time_low", "1", &C::time_low, "lower bound of time_ratio's interval", range::above_zero}),
      later(Field{"time_high", "1", &C::time_high, "upper bound of time_ratio's interval", range::above_zero}),
      later(Field{"memory_ratio", "1", &C::memory_ratio, "peak memory / that of the fastest", range::above_zero}),
      later(Field{"memory_low", "1", &C::memory_low, "lower bound of memory_ratio's interval", range::above_zero}),
      later(Field{"memory_high", "1", &C::memory_high, "upper bound of memory_ratio's interval", range::above_zero}),
      Field{"on_front", "-", &C::on_front,
            "no other case of the group is faster without needing more memory, or needs "
            "less memory without being slower (Pareto front)"},
      later(Field{"loss", "1", &C::loss, "part of the step lost against ideal scaling: 1 - efficiency"}),
      Field{"loss_parts", "1", &C::loss_parts,
            "parts of the loss: communication (not hidden), waiting and computation; empty: unknown", range::share}};
};

// A group of comparable cases: the same workload, settings, world size, global batch and computation per step.
struct AnswerGroup {
  std::string setting{};
  int world = 1;
  std::string decide{};
  std::vector<Choice> choices{};
  std::vector<Sentence> sentences{};
};

template <>
struct Table<AnswerGroup> {
  using G = AnswerGroup;
  static constexpr const char* name = "answer_group";
  static constexpr std::tuple fields{
      Field{"setting", "-", &G::setting, "what the cases have in common", range::not_empty},
      Field{"world", "devices", &G::world, "number of devices", range::positive},
      Field{"decide", "-", &G::decide, "flags of a run that would decide more; empty: none"},
      Field{"choices", "-", &G::choices, "the cases, fastest first; those without a comparable speed last"},
      Field{"sentences", "-", &G::sentences, "the answer for these cases"}};
};

struct NotRanked {
  std::string case_id{}, why{};
};

template <>
struct Table<NotRanked> {
  using N = NotRanked;
  static constexpr const char* name = "not_ranked";
  static constexpr std::tuple fields{Field{"case", "-", &N::case_id, "id of the case", range::not_empty},
                                     Field{"why", "-", &N::why, "why it is not compared", range::not_empty}};
};

struct Answer {
  std::vector<AnswerGroup> groups{};
  std::vector<NotRanked> not_ranked{};
  std::vector<Sentence> sentences{};
};

template <>
struct Table<Answer> {
  using A = Answer;
  static constexpr const char* name = "answer";
  static constexpr std::tuple fields{
      Field{"groups", "-", &A::groups, "groups of comparable cases, in the order of the report"},
      Field{"not_ranked", "-", &A::not_ranked, "cases that are compared with no other"},
      Field{"sentences", "-", &A::sentences, "the answer for the whole run"}};
};

}  // namespace dpbench
