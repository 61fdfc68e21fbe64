// Determines the outcome of one running case from the messages and exits of its ranks. Pure: the caller supplies the
// clock and the processes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/rank_group.h"
#include "harness/report/record/training.h"

namespace dpbench {

struct CaseOutcome {
  enum class Kind { ran, failed, usage, unavailable, interrupted };
  Kind kind = Kind::ran;
  std::string reason{};
  int culprit = -1;            // the rank that failed first; -1: no single rank
  bool unexplained = false;    // the culprit died without a message; its last output may explain why
  bool unwritten = false;      // a requested file could not be written
  bool never_started = false;  // failed before every rank was ready
  bool group_over = false;     // it ran, but its checks broke the group: nothing was measured, start a new group
  int signal = 0;              // the signal that interrupted the case
  std::vector<RankRecord> ranks{};
  std::vector<CheckRow> checks{};
  std::optional<TrainingRecord> training{};
  std::map<std::string, std::string> versions{};  // of the libraries loaded by the workers; keys as in env.versions
};

class CaseWatch : public RankEvents {
 public:
  // Receives rank 0's "line" and "progress" events while the case runs.
  using EventHandler = std::function<void(const Json& event)>;

  // `answer` is the event that completes the case. `ready` is true if the ranks became ready in an earlier case.
  // Without a handler only the answer is accepted. `hosts` has the host of each rank; it is empty if all ranks share
  // one.
  CaseWatch(std::string case_id, Event answer, int ranks, double timeout_s, bool ready, double now,
            EventHandler handler = {}, std::vector<std::string> hosts = {});

  void on_line(int rank, const std::string& line, double now) override;
  void on_offence(int rank, const std::string& offence, double now) override;
  void on_death(int rank, int wait_status, double now, const std::string& why = {}) override;
  void on_states(const std::vector<RankState>& states, double now) override;

  // Returns nothing while the case is running. Once there is a verdict it does not change.
  std::optional<CaseOutcome> verdict(double now) const;
  bool all_ready() const;

 private:
  // How well a symptom explains a failure. The lowest weight is reported as the cause.
  enum class Weight { cause, end, echo };
  struct Symptom {
    int rank;
    Weight weight;
    double at;
    FailureKind kind = FailureKind::failure;
    std::string text;
  };
  struct Rank {
    bool ready = false, answered = false, dead = false;
    RankState state;
    RankRecord record;
    int64_t calls = 0;  // calls of its backend in the whole case, from its answer
    uint64_t calls_hash = 0;
  };

  std::string number_and_host(int rank) const;
  std::string name_of(int rank) const;
  void on_protocol_error(int rank, const std::string& error, double now);
  void on_event(int rank, const Json& message, double now);
  void on_answer(int rank, const Json& message, double now);
  void on_failure(int rank, const Json& failure, double now);
  void add_symptom(int rank, Weight weight, double now, FailureKind kind, const std::string& text);
  bool has_symptom(int rank) const;
  bool all_settled() const;
  CaseOutcome failed() const;
  CaseOutcome hung() const;
  std::string different_calls() const;
  std::string different_calls_at_end() const;
  bool all_at_same_point() const;
  std::string last_collectives() const;
  CaseOutcome finished() const;

  std::string case_id_;
  Event answer_;
  double timeout_s_, last_advance_;
  EventHandler on_event_from_rank0_;
  std::vector<std::string> hosts_;
  std::vector<Rank> ranks_;
  std::vector<Symptom> symptoms_;
  bool group_over_ = false, timed_ = true;
  std::vector<CheckRow> checks_;
  std::optional<TrainingRecord> training_;
  std::map<std::string, std::string> versions_;
};

}  // namespace dpbench
