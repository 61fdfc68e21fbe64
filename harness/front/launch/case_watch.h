// Judges one case while it runs, from what its ranks say and how they end. Pure: the clock and the processes are the
// caller's.
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
  int culprit = -1;            // the rank that failed first, -1: none alone
  bool unexplained = false;    // the culprit died without a word: its last output may say why
  bool unwritten = false;      // a file that was asked for could not be written
  bool never_started = false;  // failed before every rank had said that it was ready
  bool group_over = false;     // it ran, but its checks broke the group: nothing was measured, and it is of no more use
  int signal = 0;              // interrupted by
  std::vector<RankRecord> ranks{};
  std::vector<CheckRow> checks{};
  std::optional<TrainingRecord> training{};
  std::map<std::string, std::string> versions{};  // of what the workers loaded, by the keys of env.versions
};

class CaseWatch : public RankEvents {
 public:
  // What rank 0 says while a case goes on: "line" and "progress".
  using Hear = std::function<void(const Json& event)>;

  // answer: the event that ends the case well. ready: the ranks have said so in an
  // earlier case. hear: nothing but the answer is expected without it. hosts: of each rank; empty where all share one.
  CaseWatch(std::string case_id, Event answer, int ranks, double timeout_s, bool ready, double now, Hear hear = {},
            std::vector<std::string> hosts = {});

  void on_line(int rank, const std::string& line, double now) override;
  void on_offence(int rank, const std::string& what, double now) override;
  void on_death(int rank, int wait_status, double now, const std::string& why = {}) override;
  void on_states(const std::vector<RankState>& states, double now) override;

  // Nothing while it is still running. Later calls are the same.
  std::optional<CaseOutcome> verdict(double now) const;
  bool all_ready() const;

 private:
  // How well a sign of failure explains the others that come with it.
  enum class Weight { cause, end, echo };
  struct Sign {
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
    int64_t calls = 0;  // of its backend in the whole case, as it answered,
    uint64_t calls_hash = 0;
  };

  std::string number_and_host(int rank) const;
  std::string name_of(int rank) const;
  void on_nonsense(int rank, const std::string& what, double now);
  void on_event(int rank, const Json& message, double now);
  void on_answer(int rank, const Json& message, double now);
  void on_failure(int rank, const Json& failure, double now);
  void add_sign(int rank, Weight weight, double now, FailureKind kind, const std::string& text);
  bool signed_by(int rank) const;
  bool everyone_settled() const;
  CaseOutcome failed() const;
  CaseOutcome hung() const;
  std::string different_calls() const;
  std::string different_calls_in_all() const;
  bool side_by_side() const;
  std::string last_collectives() const;
  CaseOutcome finished() const;

  std::string case_id_;
  Event answer_;
  double timeout_s_, last_advance_;
  Hear hear_;
  std::vector<std::string> hosts_;
  std::vector<Rank> ranks_;
  std::vector<Sign> signs_;
  bool group_over_ = false, timed_ = true;
  std::vector<CheckRow> checks_;
  std::optional<TrainingRecord> training_;
  std::map<std::string, std::string> versions_;
};

}  // namespace dpbench
