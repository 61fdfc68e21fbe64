#include "harness/front/launch/case_watch.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "harness/front/launch/exit_code.h"
#include "harness/front/process/spawn.h"
#include "harness/front/text/text.h"
#include "harness/report/record/codec.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr double grace_seconds = 0.3;  // for reports that explain the first one
constexpr size_t reason_length = 2000;

// What a rank says when another one is gone: never the cause.
bool sounds_like_an_echo(const std::string& reason) {
  constexpr std::array<const char*, 8> phrases = {"onnection reset", "onnection closed", "onnection refused",
                                                  "roken pipe",      "imed out",         "imeout",
                                                  " peer",           ") died while "};  // the last one is our own shm's
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return reason.find(phrase) != std::string::npos; });
}

// A worker that ends before it can speak says by its exit code that the user or the machine is the cause.
FailureKind death_kind(bool ready, int wait_status) {
  if (ready || !WIFEXITED(wait_status)) return FailureKind::death;
  const int code = WEXITSTATUS(wait_status);
  return code == exit_usage         ? FailureKind::usage
         : code == exit_unavailable ? FailureKind::unavailable
                                    : FailureKind::death;
}

}  // namespace

CaseWatch::CaseWatch(std::string case_id, Event answer, int ranks, double timeout_s, bool ready, double now, Hear hear,
                     std::vector<std::string> hosts)
    : case_id_(std::move(case_id)),
      answer_(answer),
      timeout_s_(timeout_s),
      last_advance_(now),
      hear_(std::move(hear)),
      hosts_(std::move(hosts)),
      ranks_(static_cast<size_t>(ranks)) {
  for (auto& rank : ranks_) rank.ready = ready;
}

std::string CaseWatch::number_and_host(int rank) const {
  return std::to_string(rank) + (hosts_.empty() ? "" : " on " + hosts_[static_cast<size_t>(rank)]);
}

std::string CaseWatch::name_of(int rank) const {
  return ranks_.size() == 1 ? "the worker" : "rank " + number_and_host(rank);
}

void CaseWatch::on_line(int rank, const std::string& line, double now) {
  last_advance_ = now;
  try {
    on_event(rank, parse_json(line, "what a rank sent"), now);
  } catch (const UsageError& error) {
    on_nonsense(rank, error.what(), now);
  } catch (const Json::exception& error) {
    on_nonsense(rank, error.what(), now);
  }
}

void CaseWatch::on_event(int rank, const Json& message, double now) {
  const std::string word = message.at("event");
  const auto event = parse_name<Event>(word);
  if (event == Event::ready) {
    ranks_[rank].ready = true;
    if (rank == 0) versions_ = message.value("versions", versions_);
    return;
  }
  const bool during_setup = event == Event::failed && message.at("case") == Json("");
  if (message.at("case") != case_id_ && !during_setup) throw UsageError("an answer about another case");
  if (event == answer_) return on_answer(rank, message, now);
  if (hear_ && rank == 0 && (event == Event::line || event == Event::progress)) return hear_(message);
  if (event != Event::failed) throw UsageError("an event '" + one_line(word, 40) + "' that is not expected");
  on_failure(rank, message, now);
}

void CaseWatch::on_failure(int rank, const Json& failure, double now) {
  const auto kind = read_value<FailureKind>(failure.at("kind"), "kind");
  const std::string reason = sanitised(std::string(failure.at("reason"))).substr(0, reason_length);
  const bool echo = kind == FailureKind::peer || (kind == FailureKind::failure && sounds_like_an_echo(reason));
  const Weight weight = echo ? Weight::echo : kind == FailureKind::failure ? Weight::end : Weight::cause;
  const bool about_all = kind == FailureKind::usage || kind == FailureKind::unavailable;
  add_sign(rank, weight, now, kind, about_all ? reason : name_of(rank) + " failed: " + reason);
}

void CaseWatch::on_answer(int rank, const Json& message, double now) {
  Rank& mine = ranks_[rank];
  if (answer_ != Event::checked) mine.record = rank_record_from_json(message.at("record"));
  if (answer_ == Event::trained && rank == 0) training_ = training_record_from_json(message.at("training"));
  if (message.contains("checks"))
    for (const auto& row : message.at("checks")) checks_.push_back(check_row_from_json(row));
  if (answer_ != Event::checked && mine.record.rank != rank) throw UsageError("a record of another rank");
  if (message.contains("calls")) {
    mine.calls = message.at("calls").at("count");
    mine.calls_hash = message.at("calls").at("hash");
  }
  group_over_ = group_over_ || message.value("group_over", false);
  timed_ = timed_ && !message.value("untimed", false);
  if (message.contains("failed")) on_failure(rank, message.at("failed"), now);
  mine.answered = true;
}

void CaseWatch::on_nonsense(int rank, const std::string& what, double now) {
  on_offence(rank, "sent what is not the protocol: " + one_line(what, 200), now);
}

void CaseWatch::on_offence(int rank, const std::string& what, double now) {
  if (!signed_by(rank)) add_sign(rank, Weight::cause, now, FailureKind::offence, name_of(rank) + " " + what);
}

void CaseWatch::on_death(int rank, int wait_status, double now, const std::string& why) {
  ranks_[rank].dead = true;
  if (signed_by(rank)) return;
  const bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGABRT;
  const std::string step =
      ranks_[rank].ready ? " at step " + std::to_string(ranks_[rank].state.step) : " before it was ready";
  const std::string how = WIFSIGNALED(wait_status)        ? " was ended by "
                          : WEXITSTATUS(wait_status) == 0 ? " left early with "
                                                          : " ended with ";
  add_sign(rank, killed ? Weight::cause : Weight::end, now,
           why.empty() ? death_kind(ranks_[rank].ready, wait_status) : FailureKind::killed_for_memory,
           name_of(rank) + how + ending(wait_status) + step + (why.empty() ? "" : ": " + why));
}

void CaseWatch::on_states(const std::vector<RankState>& states, double now) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankState& known = ranks_[i].state;
    if (states[i].step != known.step || states[i].beat != known.beat) last_advance_ = now;
    known = states[i];
  }
}

void CaseWatch::add_sign(int rank, Weight weight, double now, FailureKind kind, const std::string& text) {
  signs_.push_back({rank, weight, now, kind, text});
}

bool CaseWatch::signed_by(int rank) const {
  return std::any_of(signs_.begin(), signs_.end(), [&](const Sign& sign) { return sign.rank == rank; });
}

bool CaseWatch::all_ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ready; });
}

bool CaseWatch::everyone_settled() const {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].answered && !ranks_[i].dead && !signed_by(static_cast<int>(i))) return false;
  return true;
}

std::optional<CaseOutcome> CaseWatch::verdict(double now) const {
  if (!signs_.empty())
    return now >= signs_.front().at + grace_seconds || everyone_settled() ? std::optional(failed()) : std::nullopt;
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.answered; })) return finished();
  if (now - last_advance_ >= timeout_s_) return hung();
  return std::nullopt;
}

CaseOutcome CaseWatch::finished() const {
  const bool measured = answer_ != Event::checked && timed_ && !group_over_;
  if (const std::string differ = measured ? different_calls_in_all() : ""; !differ.empty())
    return {.kind = CaseOutcome::Kind::failed, .reason = differ, .checks = checks_};
  CaseOutcome outcome{.kind = CaseOutcome::Kind::ran,
                      .group_over = group_over_,
                      .checks = checks_,
                      .training = training_,
                      .versions = versions_};
  if (measured)
    for (const auto& rank : ranks_) outcome.ranks.push_back(rank.record);
  return outcome;
}

CaseOutcome CaseWatch::failed() const {
  const auto key = [](const Sign& sign) { return std::tuple(sign.weight, sign.at, sign.rank); };
  const Sign& root =
      *std::min_element(signs_.begin(), signs_.end(), [&](const Sign& a, const Sign& b) { return key(a) < key(b); });
  const auto kind = root.kind == FailureKind::usage         ? CaseOutcome::Kind::usage
                    : root.kind == FailureKind::unavailable ? CaseOutcome::Kind::unavailable
                                                            : CaseOutcome::Kind::failed;
  // The ranks that were left know which collective it was.
  std::string seen;
  const bool for_memory = root.kind == FailureKind::killed_for_memory,
             silent = root.kind == FailureKind::death || for_memory;
  for (const Sign& sign : signs_)
    if (silent && seen.empty() && sign.weight == Weight::echo) seen = "; " + first_line(sign.text);
  const std::string label = root.kind == FailureKind::oom || for_memory ? "out of memory: "
                            : root.kind == FailureKind::nan             ? "not a number: "
                                                                        : "";
  // A backend that does not notice ends in any way: what the ranks called says why, unless something else surely does.
  std::string reason = label + root.text + seen;
  if (const std::string differ = different_calls(); !differ.empty() && kind == CaseOutcome::Kind::failed)
    reason = root.weight == Weight::cause ? reason + "; " + differ : differ + "; " + reason;
  return {.kind = kind,
          .reason = reason,
          .culprit = root.rank,
          .unexplained = ranks_[root.rank].dead,
          .unwritten = root.kind == FailureKind::unwritten,
          .never_started = !all_ready(),
          .checks = checks_};
}

}  // namespace dpbench
