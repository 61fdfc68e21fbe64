#include "harness/worker/measure/audit/audit_plan.h"

#include <algorithm>
#include <cmath>

namespace dpbench {
namespace {

constexpr int64_t most_steps = 64;       // largest number of steps in an audit; rounding errors grow with each step
constexpr int64_t most_unmeasured = 16;  // largest number of steps in an audit if no audit was measured before
constexpr int64_t one_longer_in = 4;     // one last audit in this many is longer
// Estimated time of an audit of one step, per replica, relative to a timed step. An audit computes the replicas again,
// one after another, in float64. The first audit replaces the estimate by a measured time.
constexpr double cost_of_replica = 7;

}  // namespace

AuditPlan::AuditPlan(const Launch& launch, uint64_t seed)
    : launch_(launch),
      random_(seed),
      due_(static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(1, launch.blocks)))) {}

// Returns the maximum number of steps that an audit may take if all audits take at most a tenth of `time_s`; 0: none.
int64_t AuditPlan::affordable(int64_t block_steps, double time_s) const {
  if (left_s(time_s) < first_step_s_ || more_step_s_ <= 0) return 0;
  const auto more = static_cast<int64_t>((left_s(time_s) - first_step_s_) / more_step_s_);
  return std::min({1 + more, 2 * block_steps, most_steps});
}

// Draws the logarithm of the number of steps uniformly, so that short and long audits are equally frequent.
int64_t AuditPlan::drawn(int64_t least, int64_t most) {
  std::uniform_real_distribution logarithm(std::log(static_cast<double>(least)), std::log(static_cast<double>(most)));
  return least < most ? std::llround(std::exp(logarithm(random_))) : least;
}

bool AuditPlan::drawn_with(double probability) { return std::uniform_real_distribution()(random_) < probability; }

int64_t AuditPlan::before_block(int64_t block_steps, double step_s, double elapsed_s) {
  if (audits_ == 0) {
    first_step_s_ = cost_of_replica * launch_.replicas * step_s;
    more_step_s_ = first_step_s_ / 2;
  }
  const auto blocks_left = static_cast<double>(std::max<int64_t>(launch_.blocks - block_, 0));
  const double coming_s = std::min(blocks_left * static_cast<double>(block_steps) * step_s, launch_.max_blocks_s);
  const bool due = audits_ == 0 && block_ >= due_;
  ++block_;
  // Audits that chance decides on may take a tenth of the elapsed time in all, which spreads them over the launch. If
  // no audit has taken place until block `due_`, the first one may take a tenth of the launch's expected time, so that
  // a launch of few blocks has an audit too. In both cases, time for the last audit is reserved.
  const double reserved_s = cost_s(launch_.single_steps ? 1 : most_last);
  const int64_t most = affordable(block_steps, elapsed_s + (due ? coming_s : 0) - reserved_s / share_of_time);
  if (most == 0 || (!due && random_() % 2 == 0)) return 0;
  // The first audit takes one step, because the time of a step is still unknown.
  return audits_ == 0 || launch_.single_steps ? 1 : drawn(1, most);
}

int64_t AuditPlan::at_end(int64_t block_steps, double elapsed_s, bool always) {
  if (launch_.single_steps) return drawn_with(left_s(elapsed_s) / cost_s(1)) ? 1 : always;
  // A strategy could be right in the few steps that the last audits of short launches usually have, and wrong in the
  // rest of a block. So some launches, drawn at random, may spend as many times the share as they are rare.
  const bool longer = random_() % one_longer_in == 0;
  const int64_t fits = affordable(block_steps, longer ? one_longer_in * elapsed_s : elapsed_s),
                most = audits_ == 0 ? std::min(fits, most_unmeasured) : fits;
  if (longer && most > most_last) return drawn(most_last + 1, most);
  const int64_t steps = longer ? drawn(least_last + 1, most_last) : drawn(least_last, std::max(least_last, most));
  return drawn_with(left_s(elapsed_s) / cost_s(steps)) ? steps : always;
}

void AuditPlan::took(int64_t steps, double seconds) {
  spent_s_ += seconds;
  if (++audits_ == 1) {
    first_step_s_ = seconds;
    // The first audit does not show how long a further step takes. The estimate is half of the first step's time; a
    // later audit of several steps replaces it by a measured time.
    more_step_s_ = seconds / static_cast<double>(2 * steps);
  } else if (steps > 1) {
    more_step_s_ = std::max((seconds - first_step_s_) / static_cast<double>(steps - 1), 1e-2 * first_step_s_);
  }
}

}  // namespace dpbench
