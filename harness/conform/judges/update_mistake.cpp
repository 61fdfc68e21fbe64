#include "harness/conform/judges/update_mistake.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/error_pattern.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/row_pieces.h"

namespace dpbench {
namespace {

constexpr double alike = 1e-3;  // largest relative difference of two parameter updates that count as equal

class Diagnosis {
 public:
  Diagnosis(const Trial& trial, const Update& update, const at::Tensor& expected)
      : trial_(trial),
        update_(update),
        spec_(trial.workload().optimizer()),
        rates_(update_rates(spec_, trial.scenario.first + update.step, update.before.dim())),
        gradient_(trial.reported(update.step, update.p, update.rank)),
        before_(update.before.to(at::kDouble)),
        change_(update.after.to(at::kDouble) - before_),
        due_(expected - before_) {}

  std::string text() const {
    if (!gradient_.defined()) return "a parameter without a gradient was updated";
    if (same_bits(update_.before, update_.after)) return "not updated: the optimizer does not see this parameter";
    for (const auto by : {&Diagnosis::by_pieces, &Diagnosis::by_factor, &Diagnosis::by_gradients, &Diagnosis::by_decay,
                          &Diagnosis::by_rows})
      if (auto text = (this->*by)(); !text.empty()) return text;
    if (auto text = error_pattern(change_, due_, alike); !text.empty()) return text;
    return "updated with another gradient than the reported one, other settings or another state";
  }

 private:
  bool equals_change(const at::Tensor& other) const { return relative_error(change_, other, 1e-300) < alike; }

  // Returns the parameter's change in an optimizer step with this learning rate, weight decay and gradient.
  at::Tensor change_by(const UpdateRates& rates, const at::Tensor& gradient) const {
    OptimizerReplay replay = update_.start;
    return replay.step(spec_, rates, before_, gradient, 0).first;
  }

  // True if optimizer steps with these gradients, one after the other, change the parameter as the strategy did.
  bool comes_from(OptimizerReplay replay, const std::vector<at::Tensor>& gradients) const {
    at::Tensor now = before_;
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined() || gradient.sizes() != before_.sizes()) return false;
      now = now + replay.step(spec_, rates_, now, gradient, 0).first;
    }
    return equals_change(now - before_);
  }

  std::string by_pieces() const {
    const at::Tensor still = change_.eq(0).logical_and(due_.ne(0)), moved = still.logical_not();
    if (!still.any().item<bool>() ||
        !(relative_error(change_.masked_select(moved), due_.masked_select(moved), 0) < alike))
      return "";
    return std::to_string(still.sum().item<int64_t>()) + " of " + std::to_string(due_.numel()) +
           " elements were not updated: a piece was left out";
  }

  // Returns the diagnosis for a sharded strategy that updated a rank's rows with the gradient of another rank's rows;
  // empty if it did not.
  std::string by_rows() const {
    const int pieces = row_pieces(trial_);
    if (pieces < 2 || before_.dim() == 0) return "";
    for (int piece = 0; piece < pieces; ++piece) {
      const auto own = [&](const at::Tensor& tensor) {
        return tensor.defined() ? rows_of_piece(tensor, piece, pieces) : tensor;
      };
      const at::Tensor change = own(change_);
      if (change.numel() == 0 || relative_error(change, own(due_), 1e-300) < alike) continue;
      const std::string rows = "the rows of rank " + std::to_string(piece) + " of " + std::to_string(pieces);
      for (int other = 0; other < pieces; ++other) {
        const at::Tensor its = rows_of_piece(gradient_, other, pieces, change.size(0));
        if (other == piece || its.sizes() != change.sizes()) continue;
        OptimizerReplay replay{own(update_.start.momentum), own(update_.start.variance), update_.start.steps,
                               own(update_.start.buffer_rounding)};
        if (relative_error(change, replay.step(spec_, rates_, own(before_), its, 0).first, 1e-300) < alike)
          return rows + " were updated with the gradient of the rows of rank " + std::to_string(other);
      }
      return "";
    }
    return "";
  }

  // Returns a diagnosis if the parameter moved by a multiple of the expected update. The weight decay is subtracted
  // from both first, because it does not grow with the gradient.
  std::string by_factor() const {
    const at::Tensor decay = before_ * (rates_.learning * rates_.decay), due = due_ + decay, change = change_ + decay;
    const double size = due.square().sum().item<double>(),
                 ratio = size > 0 ? (change * due).sum().item<double>() / size : 0;
    const bool scaled = size > 0 && relative_error(change, due * ratio, 0) < alike;
    const std::string far =
        "moved " + short_number(std::round(ratio * 1e4) / 1e4) + " times as far as the reported gradient implies: ";
    if (scaled && ratio < 0) return far + "wrong direction";
    if (scaled && std::abs(ratio - 2) < alike) return far + "updated twice";
    if (auto text = by_schedule(); !text.empty()) return text;
    return scaled && std::abs(ratio - 1) > alike ? far + "another gradient or learning rate was used" : "";
  }

  std::string by_schedule() const {
    for (const int64_t apart : {-1, 1}) {
      const int64_t step = std::max<int64_t>(trial_.scenario.first + update_.step + apart, 0);
      const UpdateRates other = update_rates(spec_, step, before_.dim());
      if (other.learning != rates_.learning && equals_change(change_by(other, gradient_)))
        return std::string("updated with the learning rate of the step ") +
               (apart < 0 ? "before: the schedule is one step late" : "after it: the schedule is one step early");
    }
    return "";
  }

  // Returns the wrong gradient or optimizer state that explains the update; empty if none does.
  std::string by_gradients() const {
    if (comes_from(update_.start, {gradient_, gradient_})) return "updated twice with the reported gradient";
    if (comes_from(update_.start, {own_gradient()}))
      return "updated with the gradient of this rank's samples, not with the reported one";
    if (update_.step > 0 && comes_from(update_.start, {trial_.reported(update_.step - 1, update_.p, update_.rank)}))
      return "updated with the gradient of the step before";
    if (update_.start.steps > 0 && comes_from({}, {gradient_}))
      return "updated with a fresh optimizer state: the moments of earlier steps are lost";
    if (by_micro_momentum()) return "the momentum was applied in every micro-batch, not once a step";
    return "";
  }

  // Returns the gradient of this rank's own samples; undefined for a single process.
  at::Tensor own_gradient() const {
    at::Tensor sum;
    if (trial_.bench.distribution.parallelism != Parallelism::ranks) return sum;
    for (const Shard& shard : expected().shards)
      if (const at::Tensor part = shard.gradient[update_.p].to(at::kDouble); shard.replica == update_.rank)
        sum = sum.defined() ? sum + part : part;
    return sum.defined() ? sum / static_cast<double>(micros_in(trial_.scenario, update_.step)) : sum;
  }

  // True if the update follows from a momentum buffer that was updated once per micro-batch, with that micro-batch's
  // gradient.
  bool by_micro_momentum() const {
    const int64_t micros = micros_in(trial_.scenario, update_.step);
    if (spec_.momentum == 0 || micros == 1) return false;
    OptimizerReplay replay = update_.start;
    at::Tensor change;
    for (int64_t micro = 0; micro < micros; ++micro) {
      std::vector<double> shares = expected().shares;
      for (size_t i = 0; i < shares.size(); ++i)
        if (expected().shards[i].micro != micro) shares[i] = 0;
      change = replay.step(spec_, rates_, before_, combine(expected().shards, shares)[update_.p], 0).first;
    }
    return equals_change(change);
  }

  std::string by_decay() const {
    if (spec_.weight_decay == 0) return "";
    if (equals_change(change_by({rates_.learning, 0}, gradient_.to(at::kDouble) + spec_.weight_decay * before_)))
      return rates_.decay == 0
                 ? "weight decay was added to the gradient of a parameter that has none"
                 : "the parameter itself has no weight decay: it was added to the gradient (L2), or left out";
    const at::Tensor other = change_by({rates_.learning, rates_.decay == 0 ? spec_.weight_decay : 0}, gradient_);
    const double tolerance = alike * largest_element(due_);
    const at::Tensor wrong = (change_ - due_).abs().gt(tolerance);
    if ((change_ - other).abs().gt(tolerance).logical_and(wrong).any().item<bool>()) return "";
    return std::to_string(wrong.sum().item<int64_t>()) + " of " + std::to_string(wrong.numel()) + " elements have " +
           (rates_.decay == 0 ? "weight decay, although parameters of fewer than two dimensions have none"
                              : "no weight decay");
  }

  const ExpectedStep& expected() const { return trial_.expected[static_cast<size_t>(update_.step)]; }

  const Trial& trial_;
  const Update& update_;
  OptimizerSpec spec_;
  UpdateRates rates_;
  at::Tensor gradient_, before_;  // gradient_: the reported gradient; before_: the parameter before the step
  at::Tensor change_, due_;       // change_: the parameter's change in the step; due_: the expected change
};

}  // namespace

std::string update_mistake(const Trial& trial, const Update& update, const at::Tensor& expected) {
  return Diagnosis(trial, update, expected).text();
}

}  // namespace dpbench
