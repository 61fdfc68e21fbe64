#include "harness/conform/evidence/lockstep.h"

#include "harness/conform/evidence/computing.h"

namespace dpbench {

std::string Lockstep::from_rank0(const std::function<std::string()>& compute) {
  std::string text;
  if (rank_ == 0) {
    const Computing here;
    text = compute();
  }
  return ranks_ == 1 ? text : broadcast_text(*store_, next_key("shared"), rank_, text);
}

bool Lockstep::agreed(bool mine) {
  return ranks_ == 1 ? mine : broadcast_decision(*store_, next_key("go"), rank_, mine);
}

std::vector<Evidence> Lockstep::gathered(const Evidence& mine) {
  if (ranks_ == 1) return {mine};
  return gather_evidence(*store_, next_key("evidence"), rank_, ranks_, mine);
}

}  // namespace dpbench
