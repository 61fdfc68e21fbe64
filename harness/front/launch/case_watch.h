// Determines the outcome of one running case from the messages and exits of its ranks. Has no side effects: the caller
// reads the clock and watches the processes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/rank_calls.h"
#include "harness/front/launch/rank_group.h"
#include "harness/report/record/training.h"

namespace dpbench {

struct CaseOutcome {
  enum class Kind { ran, failed, usage, unavailable, interrupted };
  Kind kind = Kind::ran;
  std::string reason{};
  int culprit = -1;            // the rank to blame for the failure; -1: no single rank
  bool unexplained = false;    // the rank to blame is dead; the end of its log may explain why
  bool out_of_memory = false;  // a rank ran out of memory, or was killed for it
  bool unwritten = false;      // a file requested by the user could not be written
  bool never_started = false;  // the case failed before every rank was ready
  // The case ran, but its checks left the process group unusable: nothing was measured, and the next case needs new
  // processes.
  bool group_over = false;
  int signal = 0;  // the signal that interrupted the case; 0: none
  std::vector<RankRecord> ranks{};
  std::vector<CheckRow> checks{};
  Refusal refusal = Refusal::none;     // what the strategy refused to run in the checks
  std::string means{};                 // how a step combines the ranks' gradients, e.g. "batch mean"; empty: unknown
  std::vector<double> reference_ns{};  // step times of the reference case, one for each block of this case
  int disturbed_blocks = 0;            // number of timed blocks dropped: other programs or the VM's host disturbed them
  std::optional<OtherLoad> others{};   // load by other programs, and by the VM's host, while the case ran
  std::optional<TrainingRecord> training{};
  // Versions of the libraries that the workers loaded; the keys are those of the report's env.versions.
  std::map<std::string, std::string> versions{};
};

class CaseWatch : public RankEvents {
 public:
  // Receives the "line" (log line) and "progress" events of rank 0 while the case runs.
  using EventHandler = std::function<void(const Json& event)>;

  // `answer` is the type of event with which a rank reports that it has completed the case. `ready` is true if the
  // ranks became ready in an earlier case. If `handler` is empty, "line" and "progress" events are protocol errors.
  // `where` holds for each rank the text that messages show after its number: its mesh coordinates and host.
  CaseWatch(std::string case_id, Event answer, int ranks, double timeout_s, bool ready, double now,
            EventHandler handler = {}, const std::vector<std::string>& where = {});

  void on_line(int rank, const std::string& line, double now) override;
  void on_offence(int rank, const std::string& offence, double now) override;
  void on_death(int rank, int wait_status, double now, const std::string& why = {}) override;
  void on_states(const std::vector<RankState>& states, double now) override;

  // Returns the outcome of the case, or nothing while the case is running. A returned outcome never changes.
  std::optional<CaseOutcome> verdict(double now) const;
  bool all_ready() const;
  // Returns the progress of the case's checks, such as "checking: 4 of 8"; empty while no check runs.
  const std::string& checking() const { return checking_; }

 private:
  // How directly a symptom (a rank's error or death) explains a failure. The symptom of the lowest weight is reported
  // as the root cause.
  enum class Weight { cause, end, echo };
  struct Symptom {
    int rank;
    Weight weight;
    double at;
    FailureKind kind = FailureKind::failure;
    std::string text;
  };

  void on_protocol_error(int rank, const std::string& error, double now);
  void on_event(int rank, const Json& message, double now);
  void on_answer(int rank, const Json& message, double now);
  void on_failure(int rank, const Json& failure, double now);
  void add_symptom(int rank, Weight weight, double now, FailureKind kind, const std::string& text);
  bool has_symptom(int rank) const;
  bool all_settled() const;
  CaseOutcome failed() const;
  CaseOutcome hung() const;
  CaseOutcome finished() const;

  std::string case_id_;
  Event answer_;
  double timeout_s_, last_advance_;
  EventHandler on_event_from_rank0_;
  std::vector<Rank> ranks_;
  std::vector<Symptom> symptoms_;
  bool group_over_ = false, timed_ = true;
  std::string means_, checking_;
  std::vector<CheckRow> checks_;
  Refusal refusal_ = Refusal::none;
  std::optional<TrainingRecord> training_;
  std::map<std::string, std::string> versions_;
};

}  // namespace dpbench
