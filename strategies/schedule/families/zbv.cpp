// ZBV (Qi et al., arXiv 2405.15362, and section 6 of arXiv 2401.10241v2): each rank has two stages, placed as a V, so
// that the last stage lies on the first rank.
#include <algorithm>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/tape.h"

namespace dpbench::pipeline {
namespace {

// The list of actions of one rank of ZBV. The rank has two stages: activations pass `down` on the way to the last rank,
// and `up` on the way back.
class VeeRank {
 public:
  // If there are too few micro-batches to fill the pipeline, makes the schedule for the smallest number that fills it,
  // and leaves out the computations of the micro-batches that do not exist.
  VeeRank(const Request& request, int rank)
      : tape_(request.microbatches),
        ranks_(request.ranks),
        rank_(rank),
        count_(std::max(request.microbatches, 2 * request.ranks - 1)),
        down_(rank),
        up_(2 * request.ranks - 1 - rank) {}

  std::vector<Action> actions() {
    warm_up();
    steady();
    cool_down();
    return tape_.take();
  }

 private:
  void forward_down() {
    tape_.forward(down_);
    ++forwards_down_;
  }
  void forward_up() {
    tape_.forward(up_);
    ++forwards_up_;
  }
  void backward_up() {
    tape_.input_gradient(up_);
    tape_.weight_gradient(up_);
    ++backwards_up_;
  }

  void warm_up() {
    for (int i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward_down();
    for (int i = 0; i < rank_; ++i) {
      forward_up();
      forward_down();
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      forward_up();
      backward_up();
    }
  }

  void steady() {
    while (forwards_up_ < forwards_down_ || forwards_down_ < count_) {
      if (forwards_down_ < count_) forward_down();
      tape_.input_gradient(down_);
      tape_.weight_gradient(down_);
      ++backwards_down_;
      forward_up();
      backward_up();
    }
  }

  void cool_down() {
    for (int i = 0; i < rank_; ++i) {
      tape_.input_gradient(down_);
      tape_.input_gradient(up_);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      tape_.input_gradient(down_);
      tape_.weight_gradient(down_);
    }
    for (int i = backwards_up_; i < count_; ++i) tape_.weight_gradient(up_);
    for (int i = backwards_down_ + ranks_ - rank_; i < count_; ++i) tape_.weight_gradient(down_);
  }

  Tape tape_;
  int ranks_, rank_, count_, down_, up_;
  int forwards_down_ = 0, forwards_up_ = 0, backwards_down_ = 0, backwards_up_ = 0;
};

}  // namespace

Schedule make_zbv(const Request& request) {
  Schedule schedule{.microbatches = request.microbatches, .rank_of = vee_placement(request.ranks)};
  for (int rank = 0; rank < request.ranks; ++rank) schedule.ranks.push_back(VeeRank(request, rank).actions());
  schedule.live_limits.assign(request.ranks, 2 * std::min(request.ranks, request.microbatches));
  return schedule;
}

}  // namespace dpbench::pipeline
