// Decides before which timed blocks of a launch an audit (a comparison of untimed steps with the oracle) takes place,
// and how many steps it takes. All times come from the caller.
#pragma once

#include <cstdint>
#include <random>

namespace dpbench {

class AuditPlan {
 public:
  // Share of a launch's time that its audits may take. See at_end() for the launches that exceed it.
  static constexpr double share_of_time = 0.1;
  // The last audit of a launch has `least_last` steps, or a random number up to a larger limit if share_of_time allows
  // it. In one launch of four it is longer: more than `most_last` steps if four times the share allows it, else up to
  // `most_last`. Three steps expose a strategy that is correct only in the first two steps after parameters(),
  // buffers() or state() is called.
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
  // Returns the number of steps to audit after the last block; 0: none. If an audit of up to `most_last` steps takes
  // more than what is left of the share, it takes place by chance only, so that such audits take the share on average.
  // `always`: if chance decides against it, one step is audited.
  int64_t at_end(int64_t block_steps, double elapsed_s, bool always);
  // Tells the plan how long an audit took.
  void took(int64_t steps, double seconds);
  int64_t audits() const { return audits_; }
  double spent_s() const { return spent_s_; }

 private:
  double left_s(double time_s) const { return share_of_time * time_s - spent_s_; }
  double cost_s(int64_t steps) const { return first_step_s_ + static_cast<double>(steps - 1) * more_step_s_; }
  int64_t affordable(int64_t block_steps, double time_s) const;
  int64_t drawn(int64_t least, int64_t most);
  bool drawn_with(double probability);

  Launch launch_;
  std::mt19937_64 random_;
  // Number of a block, from 0. If chance has decided on no audit before an earlier block, the first audit takes place
  // before this block, or before the first later block for which share_of_time allows one.
  int64_t due_;
  int64_t block_ = 0, audits_ = 0;
  double spent_s_ = 0;
  // first_step_s_: time of an audit of one step; more_step_s_: of each further step
  double first_step_s_ = 0, more_step_s_ = 0;
};

}  // namespace dpbench
