// Decides before which timed blocks of a launch an audit (a comparison of timed steps with the oracle) takes place, and
// how many steps it takes. All times come from the caller.
#pragma once

#include <cstdint>
#include <random>

namespace dpbench {

class AuditPlan {
 public:
  // Largest share of a launch's time that its audits take. If this share does not suffice for one audit before the last
  // block and one after it, they take more.
  static constexpr double share_of_time = 0.1;
  // Steps of the last audit of a launch: a random number, at least `least_last` and up to `most_last`, or more if a
  // tenth of the time allows more. Three steps expose a strategy that is correct only in the first two steps after
  // parameters(), buffers() or state() is called.
  static constexpr int64_t least_last = 3, most_last = 5;

  struct Launch {
    int64_t blocks = 1;         // maximum number of timed blocks
    double max_blocks_s = 60;   // time limit of all timed blocks together
    int replicas = 1;           // number of replicas that an audit computes again, one after another
    bool single_steps = false;  // true: each audit takes a single step
  };
  AuditPlan(const Launch& launch, uint64_t seed);

  // Returns the number of steps to audit before the next block; 0: none. Chance decides which blocks are preceded by an
  // audit, so a strategy cannot predict audits. step_s: time of a timed step. elapsed_s: time since the launch began.
  int64_t before_block(int64_t block_steps, double step_s, double elapsed_s);
  // Returns the number of steps to audit after the last block; at least 1, whatever they cost.
  int64_t at_end(int64_t block_steps, double elapsed_s);
  // Tells the plan how long an audit took.
  void took(int64_t steps, double seconds);
  int64_t audits() const { return audits_; }
  double spent_s() const { return spent_s_; }

 private:
  int64_t affordable(int64_t block_steps, double time_s) const;
  int64_t drawn(int64_t least, int64_t most);

  Launch launch_;
  std::mt19937_64 random_;
  // Number of the block before which the first audit takes place at the latest, or a later block if the audit would
  // take too long.
  int64_t due_;
  int64_t block_ = 0, audits_ = 0;
  double spent_s_ = 0;
  // first_step_s_: time of an audit of one step; more_step_s_: of each further step
  double first_step_s_ = 0, more_step_s_ = 0;
};

}  // namespace dpbench
