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

constexpr double grace_seconds = 0.3;  // time to wait after the first error for another rank's error that explains it
// Grace period while every error so far only reports that another rank is gone. On a busy machine, that rank may need
// seconds to report its own error.
constexpr double echo_grace_seconds = 3;
constexpr size_t reason_length = 2000;

// True if the text of an error suggests that the rank failed only because another rank is gone. Such an error is
// reported as the root cause only if there is no other.
bool is_secondary(const std::string& reason) {
  // Phrases from messages about a lost rank or a timeout. The last two are from the backend shm.
  constexpr std::array<const char*, 9> phrases = {"onnection reset", "onnection closed", "onnection refused",
                                                  "roken pipe",      "imed out",         "imeout",
                                                  " peer",           ") died while ",    "left the group while "};
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return reason.find(phrase) != std::string::npos; });
}

// Classifies the death of a worker. A worker that exits before it is ready uses its exit code to report a usage error
// or an unavailable resource.
FailureKind death_kind(bool ready, int wait_status) {
  if (ready || !WIFEXITED(wait_status)) return FailureKind::death;
  const int code = WEXITSTATUS(wait_status);
  return code == exit_usage         ? FailureKind::usage
         : code == exit_unavailable ? FailureKind::unavailable
                                    : FailureKind::death;
}

std::string seconds(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

CaseWatch::CaseWatch(std::string case_id, Event answer, int ranks, double timeout_s, bool ready, double now,
                     EventHandler handler, const std::vector<std::string>& where)
    : case_id_(std::move(case_id)),
      answer_(answer),
      timeout_s_(timeout_s),
      last_advance_(now),
      on_event_from_rank0_(std::move(handler)),
      ranks_(static_cast<size_t>(ranks)) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].ready = ready;
    ranks_[i].label = std::to_string(i) + (where.empty() ? "" : where[i]);
  }
}

void CaseWatch::on_line(int rank, const std::string& line, double now) {
  last_advance_ = now;
  try {
    on_event(rank, parse_json(line, "message of a rank"), now);
  } catch (const UsageError& error) {
    on_protocol_error(rank, error.what(), now);
  } catch (const Json::exception& error) {
    on_protocol_error(rank, error.what(), now);
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
  if (message.at("case") != case_id_ && !during_setup) throw UsageError("answer for another case");
  if (event == answer_) return on_answer(rank, message, now);
  if (event == Event::checking && rank == 0) {
    checking_ = message.at("number") == 0 ? ""
                                          : "checking: " + std::to_string(message.at("number").get<int64_t>()) +
                                                " of " + std::to_string(message.at("of").get<int64_t>());
    return;
  }
  if (on_event_from_rank0_ && rank == 0 && (event == Event::line || event == Event::progress))
    return on_event_from_rank0_(message);
  if (event != Event::failed) throw UsageError("unexpected event '" + one_line(word, 40) + "'");
  on_failure(rank, message, now);
}

void CaseWatch::on_failure(int rank, const Json& failure, double now) {
  const auto kind = read_value<FailureKind>(failure.at("kind"), "kind");
  const std::string reason = sanitised(std::string(failure.at("reason"))).substr(0, reason_length);
  const bool echo = kind == FailureKind::peer || (kind == FailureKind::failure && is_secondary(reason));
  const Weight weight = echo ? Weight::echo : kind == FailureKind::failure ? Weight::end : Weight::cause;
  const bool about_all = kind == FailureKind::usage || kind == FailureKind::unavailable;
  add_symptom(rank, weight, now, kind, about_all ? reason : name_of(ranks_, rank) + " failed: " + reason);
}

void CaseWatch::on_answer(int rank, const Json& message, double now) {
  Rank& sender = ranks_[rank];
  if (answer_ != Event::checked) sender.record = rank_record_from_json(message.at("record"));
  if (answer_ == Event::trained && rank == 0) training_ = training_record_from_json(message.at("training"));
  if (message.contains("checks"))
    for (const auto& row : message.at("checks")) checks_.push_back(check_row_from_json(row));
  if (rank == 0 && message.contains("refused")) refusal_ = read_value<Refusal>(message.at("refused"), "refused");
  if (answer_ != Event::checked && sender.record.rank != rank) throw UsageError("record of another rank");
  if (message.contains("calls"))
    for (const Json& calls : message.at("calls"))
      sender.calls[calls.at("group")] = {.count = calls.at("count"), .hash = calls.at("hash")};
  means_ = message.value("means", means_);
  group_over_ = group_over_ || message.value("group_over", false);
  timed_ = timed_ && !message.value("untimed", false);
  if (message.contains("failed")) on_failure(rank, message.at("failed"), now);
  sender.answered = true;
}

void CaseWatch::on_protocol_error(int rank, const std::string& error, double now) {
  on_offence(rank, "violated the protocol: " + one_line(error, 200), now);
}

void CaseWatch::on_offence(int rank, const std::string& offence, double now) {
  if (!has_symptom(rank))
    add_symptom(rank, Weight::cause, now, FailureKind::offence, name_of(ranks_, rank) + " " + offence);
}

void CaseWatch::on_death(int rank, int wait_status, double now, const std::string& why) {
  ranks_[rank].dead = true;
  if (has_symptom(rank)) return;
  const bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGABRT;
  const std::string when = ranks_[rank].ready ? place_of(ranks_[rank]) : " before it was ready";
  const std::string how = WIFSIGNALED(wait_status)        ? " was killed by "
                          : WEXITSTATUS(wait_status) == 0 ? " left early with "
                                                          : " ended with ";
  add_symptom(rank, killed ? Weight::cause : Weight::end, now,
              why.empty() ? death_kind(ranks_[rank].ready, wait_status) : FailureKind::killed_for_memory,
              name_of(ranks_, rank) + how + describe_exit(wait_status) + when + (why.empty() ? "" : ": " + why));
}

void CaseWatch::on_states(const std::vector<RankState>& states, double now) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankState& known = ranks_[i].state;
    if (states[i].step != known.step || states[i].beat != known.beat) last_advance_ = now;
    known = states[i];
  }
}

void CaseWatch::add_symptom(int rank, Weight weight, double now, FailureKind kind, const std::string& text) {
  symptoms_.push_back({rank, weight, now, kind, text});
}

bool CaseWatch::has_symptom(int rank) const {
  return std::any_of(symptoms_.begin(), symptoms_.end(), [&](const Symptom& symptom) { return symptom.rank == rank; });
}

bool CaseWatch::all_ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ready; });
}

bool CaseWatch::all_settled() const {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].answered && !ranks_[i].dead && !has_symptom(static_cast<int>(i))) return false;
  return true;
}

std::optional<CaseOutcome> CaseWatch::verdict(double now) const {
  if (!symptoms_.empty()) {
    const bool only_echoes = different_calls(ranks_).empty() &&
                             std::all_of(symptoms_.begin(), symptoms_.end(),
                                         [](const Symptom& symptom) { return symptom.weight == Weight::echo; });
    const double grace = only_echoes ? echo_grace_seconds : grace_seconds;
    return now >= symptoms_.front().at + grace || all_settled() ? std::optional(failed()) : std::nullopt;
  }
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.answered; })) return finished();
  if (now - last_advance_ >= timeout_s_) return hung();
  return std::nullopt;
}

CaseOutcome CaseWatch::finished() const {
  const bool measured = answer_ != Event::checked && timed_ && !group_over_;
  if (const std::string differ = measured ? different_calls_at_end(ranks_) : ""; !differ.empty())
    return {.kind = CaseOutcome::Kind::failed, .reason = differ, .checks = checks_};
  CaseOutcome outcome{.kind = CaseOutcome::Kind::ran,
                      .group_over = group_over_,
                      .checks = checks_,
                      .refusal = refusal_,
                      .means = means_,
                      .training = training_,
                      .versions = versions_};
  if (measured)
    for (const auto& rank : ranks_) outcome.ranks.push_back(rank.record);
  return outcome;
}

CaseOutcome CaseWatch::hung() const {
  const Hang hang = hang_of(ranks_, checking_.empty() ? "" : " (" + checking_ + ")");
  return {.kind = CaseOutcome::Kind::failed,
          .reason = "no rank made progress for " + seconds(timeout_s_) + " (--timeout): " + hang.reason,
          .culprit = hang.culprit,
          .never_started = !all_ready()};
}

CaseOutcome CaseWatch::failed() const {
  const auto key = [](const Symptom& symptom) { return std::tuple(symptom.weight, symptom.at, symptom.rank); };
  const Symptom& root = *std::min_element(symptoms_.begin(), symptoms_.end(),
                                          [&](const Symptom& a, const Symptom& b) { return key(a) < key(b); });
  const auto kind = root.kind == FailureKind::usage         ? CaseOutcome::Kind::usage
                    : root.kind == FailureKind::unavailable ? CaseOutcome::Kind::unavailable
                                                            : CaseOutcome::Kind::failed;
  // A rank that died silently left no error message. Add the first error of a surviving rank to the reason: it names
  // the collective in which that rank waited.
  std::string seen;
  const bool for_memory = root.kind == FailureKind::killed_for_memory,
             silent = root.kind == FailureKind::death || for_memory;
  for (const Symptom& symptom : symptoms_)
    if (silent && seen.empty() && symptom.weight == Weight::echo) seen = "; " + first_line(symptom.text);
  const bool out_of_memory = root.kind == FailureKind::oom || for_memory;
  const std::string label = out_of_memory ? "out of memory: " : root.kind == FailureKind::nan ? "not a number: " : "";
  // Mismatched collectives can make a backend fail in any way. So report a mismatch before the error of the
  // failed rank, unless that error is certainly the cause (Weight::cause).
  std::string reason = label + root.text + seen;
  if (const std::string differ = different_calls(ranks_); !differ.empty() && kind == CaseOutcome::Kind::failed)
    reason = root.weight == Weight::cause ? reason + "; " + differ : differ + "; " + reason;
  return {.kind = kind,
          .reason = reason,
          .culprit = root.rank,
          .unexplained = ranks_[root.rank].dead,
          .out_of_memory = out_of_memory,
          .unwritten = root.kind == FailureKind::unwritten,
          .never_started = !all_ready(),
          .checks = checks_};
}

}  // namespace dpbench
