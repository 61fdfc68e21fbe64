#include "harness/conform/judges/judge_course.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

// Allowed error of a course (several steps computed by the oracle) in float64, relative to how far the parameters move.
// It is 15 times the largest error measured for a correct strategy (convnet, where Adam enlarges gradients that cancel
// to zero), and a hundredth of the smallest measured for a wrong one.
constexpr double course_bound = 1e-8;
// A strategy may differ from the float64 course (steps computed by the oracle) by this multiple of the oracle's own
// rounding error, which is measured by computing the course in the strategy's dtype too.
constexpr double course_factor = 8;
// Allowed relative error after several steps, in units of roundoff of the dtype in which gradients are communicated.
constexpr double communicated_roundings = 64;

constexpr char diverged_text[] =
    "the ranks have different parameters: gradients are not reduced in steps that nobody looks at";

double distance(const at::Tensor& a, const at::Tensor& b) {
  return largest_element(a.to(at::kDouble) - b.to(at::kDouble));
}

class Comparison {
 public:
  Comparison(const Trial& trial, const Course& expected, const Course* rounded)
      : trial_(trial),
        expected_(expected),
        rounded_(rounded),
        rounds_(rounded || trial.scenario.dtype != at::kDouble),
        relative_(rounds_ ? pass_bound(trial.scenario.dtype) : course_bound) {
    if (const auto type = trial.bench.strategy.reduced_in)
      relative_ = std::max(relative_, communicated_roundings * unit_roundoff(*type));
    if (rounded) measure_rounding();
  }

  Deviation course() {
    for (size_t rank = 1; rank < trial_.ranks.size(); ++rank) start(rank);
    // Only the first failure is described. The losses of all steps come first, because they show where a mistake
    // begins; a single loss comes last, because the parameters show more.
    const bool every_loss = trial_.ranks[0].steps.size() > 1 && trial_.ranks[0].steps[0].loss.defined();
    if (every_loss) passes();
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank) {
      parameters(rank);
      buffers(rank);
    }
    if (!every_loss) passes();
    return deviation_;
  }

  Deviation state() {
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank)
      for (const auto& [name, due] : expected_.ranks[rank].state) slot(rank, name, due);
    return deviation_;
  }

 private:
  void add(double error, const LazyText& where, const LazyText& likely = "") {
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > 1 && deviation_.where.empty()) deviation_.where = where(), deviation_.likely = likely();
    deviation_.error = std::max(deviation_.error, error);
  }

  // Measures the rounding error of the course, i.e. of the steps computed by the oracle. A single loss, or a parameter
  // with few elements, may have a small error by chance. Therefore all losses use the largest error of any rank and
  // step, and every parameter uses at least the typical error of all parameters.
  void measure_rounding() {
    std::vector<at::Tensor> errors, changes;
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank) {
      const CourseEnd &exact = expected_.ranks[rank], &rough = rounded_->ranks[rank];
      for (size_t step = 0; step < exact.losses.size(); ++step)
        if (exact.losses[step].defined())
          loss_rounding_ = std::max(loss_rounding_, distance(rough.losses[step], exact.losses[step]));
      for (const auto& [name, due] : exact.parameters) {
        const at::Tensor *mine = find(rough.parameters, name), start = before(rank, name);
        if (!mine || !start.defined() || !due.is_floating_point()) continue;
        errors.push_back(mine->to(at::kDouble) - due.to(at::kDouble));
        changes.push_back(due.to(at::kDouble) - start.to(at::kDouble));
      }
    }
    if (const double change = norm(changes); change > 0) usual_rounding_ = norm(errors) / change;
  }

  // Returns the compared elements of a parameter before the first step; an undefined tensor if the rank has no such
  // parameter.
  at::Tensor before(size_t rank, const std::string& name) const {
    const at::Tensor* found = find(trial_.ranks[rank].parameters, name);
    return found ? trial_.scenario.sample.of(*found) : at::Tensor();
  }

  // Returns e.g. " (of 100 elements from number 7 on, 5 apart)" if only some elements of the parameter were compared;
  // otherwise an empty string.
  std::string sampled(const at::Tensor& compared, const std::string& name) const {
    const at::Tensor* whole = find(trial_.ranks[0].parameters, name);
    if (!whole || trial_.scenario.sample.takes_all(whole->numel())) return "";
    return " (of " + std::to_string(compared.numel()) + " elements from number " +
           std::to_string(trial_.scenario.sample.first(whole->numel())) + " on, " +
           std::to_string(trial_.scenario.sample.stride(whole->numel())) + " apart)";
  }

  void passes() {
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank) {
      losses(rank);
      output(rank);
    }
  }

  std::string at_rank(size_t rank) const { return ", rank " + std::to_string(trial_.ranks[rank].rank); }
  std::string step_text(size_t step) const {
    return std::to_string(trial_.scenario.first + static_cast<int64_t>(step));
  }
  std::string after() const {
    return " after step " + step_text(static_cast<size_t>(trial_.scenario.steps) - 1) + ", " +
           std::to_string(trial_.scenario.steps) + " steps after the last look at the strategy";
  }

  // Checks that a rank's parameters before the first step equal rank 0's.
  void start(size_t rank) {
    if (trial_.bench.strategy.gradient == Gradient::local) return;
    for (const auto& [name, whole] : trial_.ranks[0].parameters) {
      const at::Tensor found = before(rank, name), due = before(0, name);
      if (is_in(trial_.bench.strategy.own, name) || (found.defined() && (found.is_same(due) || same_bits(found, due))))
        continue;
      add(
          std::numeric_limits<double>::infinity(),
          [&, &name = name] {
            return "parameter " + name + " before step " + step_text(0) + ", " + first_difference(found, due) +
                   sampled(due, name) + at_rank(rank);
          },
          diverged_text);
      return;
    }
  }

  // Root mean square of the last output, the scale of a loss's rounding errors.
  double output_size(size_t rank) const {
    const at::Tensor& output = expected_.ranks[rank].output;
    return output.defined() && output.numel() ? norm({output}) / std::sqrt(static_cast<double>(output.numel())) : 0;
  }

  void losses(size_t rank) {
    const auto& steps = trial_.ranks[rank].steps;
    for (size_t step = 0; step < steps.size(); ++step) {
      const at::Tensor &due = expected_.ranks[rank].losses[step], &found = steps[step].loss;
      if (!due.defined() || !found.defined() || found.numel() != 1) continue;
      const double loss = due.item<double>(), reported = found.item<double>();
      double bound = relative_ * std::max({std::abs(loss), output_size(rank), 1e-30});
      bound += course_factor * loss_rounding_;
      add(
          std::abs(reported - loss) / bound,
          [&] {
            return "the loss of step " + step_text(step) + ": " + expected_and_found(loss, reported) + at_rank(rank);
          },
          [&] {
            if (step == 0)
              return std::string("the loss of other samples or of other parameters than the reported ones");
            const bool known = steps[step - 1].loss.defined();
            return "a step before it did not update the parameters as declared" +
                   (known ? "; up to step " + step_text(step - 1) + " the losses are right" : "");
          });
    }
  }

  void output(size_t rank) {
    const at::Tensor &due = expected_.ranks[rank].output, &found = trial_.ranks[rank].steps.back().output;
    if (!due.defined() || !found.defined()) return;
    const double rounding = rounded_ ? relative_error(rounded_->ranks[rank].output, due, 0) : 0;
    add(
        relative_error(found, due, 0) / (relative_ + course_factor * rounding),
        [&] { return "the output of the last step, " + first_difference(found, due) + at_rank(rank) + after(); },
        "computed with other parameters than the reported ones");
  }

  // Largest distance that an element of any parameter moves during the course.
  double moved(size_t rank) const {
    double most = 0;
    for (const auto& [name, due] : expected_.ranks[rank].parameters)
      if (const at::Tensor start = before(rank, name); start.defined() && due.is_floating_point())
        most = std::max(most, distance(due, start));
    return most;
  }

  void parameters(size_t rank) {
    const Evidence& evidence = trial_.ranks[rank];
    const OptimizerSpec spec = trial_.workload().optimizer();
    const double most = moved(rank), steps = static_cast<double>(trial_.scenario.steps);
    const double rates = sum_of_learning_rates(spec, trial_.scenario.first, trial_.scenario.steps);
    const double roundings = (spec.weight_decay == 0 ? 1 : 3) * steps + 4;  // roundings of a parameter over all steps
    for (const auto& [name, due] : expected_.ranks[rank].parameters) {
      const at::Tensor *found = find(evidence.steps.back().parameters, name), start = before(rank, name);
      if (!found || !start.defined() || found->sizes() != due.sizes()) {
        add(std::numeric_limits<double>::infinity(), "parameter " + name + " is missing" + at_rank(rank) + after());
        continue;
      }
      if (!due.is_floating_point()) continue;
      const double u = unit_roundoff(start.scalar_type());
      double noise = relative_ * (rounds_ ? std::max(distance(due, start), 1e-3 * most) : most);
      if (rounded_)
        if (const at::Tensor* rough = find(rounded_->ranks[rank].parameters, name))
          noise += course_factor * std::max(distance(*rough, due), usual_rounding_ * distance(due, start));
      if (spec.kind == OptimizerSpec::Kind::adam) noise += adam_roundings * u * rates + by_rounding(rank, name, rates);
      const at::Tensor bound = due.to(at::kDouble).abs() * (roundings * u) + noise;
      add(
          largest_ratio(*found, due, rounds_ ? widened(bound, *found, due, rates) : bound),
          [&, &name = name, &due = due] {
            return "parameter " + name + ", " + first_difference(*found, due) + sampled(due, name) + at_rank(rank) +
                   after();
          },
          [&, &due = due] { return mistake(rank, start, *found, due); });
    }
  }

  // Returns how far a parameter may move if its gradients are rounding errors, e.g. the bias of attention's keys: its
  // exact gradient is zero. Adam's variance shows the size of the gradients. Above epsilon they are no rounding errors.
  double by_rounding(size_t rank, const std::string& name, double rates) const {
    const at::Tensor* variance = find(expected_.ranks[rank].state, state_name(name, Slot::variance));
    if (!rounds_ || !variance) return 0;
    const OptimizerSpec spec = trial_.workload().optimizer();
    const auto steps = static_cast<double>(trial_.scenario.first + trial_.scenario.steps);
    const double size = std::sqrt(largest_element(*variance) / (1 - std::pow(spec.beta2, steps)));
    return size < spec.epsilon ? rates * size / spec.epsilon : 0;
  }

  // Under Adam, an element whose gradient nearly cancels moves by about the learning rate in each step, in a direction
  // that rounding decides. So a thousandth of the elements may differ by twice the sum of the learning rates.
  at::Tensor widened(const at::Tensor& bound, const at::Tensor& found, const at::Tensor& due, double rates) const {
    if (trial_.workload().optimizer().kind != OptimizerSpec::Kind::adam || due.numel() == 0) return bound;
    const at::Tensor excess = ((found.to(at::kDouble) - due.to(at::kDouble)).abs() / bound).flatten();
    const int64_t few = 1 + due.numel() / 1000;
    const at::Tensor which = std::get<1>(excess.topk(std::min(few, excess.numel())));
    at::Tensor wide = bound.expand_as(due).clone(at::MemoryFormat::Contiguous);
    wide.view({-1}).index_add_(0, which, at::full({which.numel()}, 2 * rates, wide.options()));
    return wide;
  }

  std::string mistake(size_t rank, const at::Tensor& start, const at::Tensor& found, const at::Tensor& due) const {
    const at::Tensor change = found.to(at::kDouble) - start.to(at::kDouble),
                     right = due.to(at::kDouble) - start.to(at::kDouble);
    if (!change.any().item<bool>()) return "not updated in steps that nobody looks at";
    const at::Tensor still = change.eq(0).logical_and(right.ne(0));
    if (const auto count = still.sum().item<int64_t>(); count > 0)
      return std::to_string(count) + " of " + std::to_string(change.numel()) + " elements were not updated";
    const double size = right.square().sum().item<double>(), ratio = (change * right).sum().item<double>() / size;
    if (size > 0 && relative_error(change, right * ratio, 0) < 1e-3)
      return "moved " + short_number(std::round(ratio * 1e4) / 1e4) +
             " times as far as declared: steps left out or taken twice, or another scale of the gradient";
    for (size_t other = 0; other < trial_.ranks.size(); ++other)
      if (!same_parameters(rank, other)) return diverged_text;
    return "updated with another gradient, of other samples or parameters, or with another optimizer state";
  }

  bool same_parameters(size_t rank, size_t other) const {
    const auto &mine = trial_.ranks[rank].steps.back().parameters, &its = trial_.ranks[other].steps.back().parameters;
    for (const auto& [name, tensor] : mine)
      if (const at::Tensor* found = find(its, name);
          !is_in(trial_.bench.strategy.own, name) && found && !same_bits(*found, tensor))
        return false;
    return true;
  }

  void buffers(size_t rank) {
    for (const auto& [name, due] : expected_.ranks[rank].buffers) {
      const at::Tensor* found = find(trial_.ranks[rank].steps.back().buffers, name);
      // The check `buffers` reports missing buffers and wrong sizes.
      if (!found || found->sizes() != due.sizes()) continue;
      const bool counts = !due.is_floating_point();
      double bound = counts ? 0.5 : relative_ * std::max(largest_element(due.to(at::kDouble)), 1e-30);
      if (rounded_ && !counts)
        if (const at::Tensor* rough = find(rounded_->ranks[rank].buffers, name))
          bound += course_factor * distance(*rough, due);
      add(
          distance(*found, due) / bound,
          [&, &name = name, &due = due] {
            return "buffer " + name + ", " + first_difference(*found, due) + at_rank(rank) + after();
          },
          "does not follow the declared rule in steps that nobody looks at");
    }
  }

  void slot(size_t rank, const std::string& name, const at::Tensor& due) {
    const auto& state = trial_.ranks[rank].steps.back().state;
    const at::Tensor* found = find(state, name);
    if (!found) return;
    if (found->numel() != due.numel())
      return add(std::numeric_limits<double>::infinity(), "state " + name + " has sizes " + c10::str(found->sizes()) +
                                                              ", expected " + c10::str(due.sizes()) + at_rank(rank));
    // If the gradient is zero by cancellation, the slot holds only rounding errors. Therefore the bound is relative to
    // the largest value that any parameter's slot of the same kind holds.
    const StateName split = split_state_name(name);
    double bound = relative_ * std::max(largest_slot(rank, split.slot), 1e-30);
    if (split.slot == Slot::step) bound = 0.5;  // step counts are whole numbers, so this requires equality
    if (rounded_ && split.slot != Slot::step)
      if (const at::Tensor* rough = find(rounded_->ranks[rank].state, name))
        bound += course_factor * distance(*rough, due);
    add(
        distance(found->reshape(due.sizes()), due) / bound,
        [&] { return "state " + name + ", " + first_difference(*found, due) + at_rank(rank) + after(); },
        [&] { return slot_mistake(rank, split, *found); });
  }

  double largest_slot(size_t rank, std::optional<Slot> kind) const {
    double most = 0;
    for (const auto& [name, tensor] : expected_.ranks[rank].state)
      if (split_state_name(name).slot == kind) most = std::max(most, largest_element(tensor));
    return most;
  }

  std::string slot_mistake(size_t rank, const StateName& name, const at::Tensor& found) const {
    if (name.slot == Slot::step)
      return "counts steps in which the parameter had no gradient, or leaves out steps in which it had one";
    const auto& all = expected_.ranks[rank].state;
    for (const Slot other : {Slot::momentum, Slot::variance})
      if (const at::Tensor* due = find(all, state_name(name.parameter, other));
          due && name.slot != other && relative_error(found, *due, 0) < 1e-3)
        return "momentum and variance are swapped";
    return "another gradient, another decay, or a step left out or taken twice";
  }

  const Trial& trial_;
  const Course& expected_;
  const Course* rounded_;
  bool rounds_;  // true if the strategy computes or communicates in a narrower dtype than float64
  double relative_;
  double loss_rounding_ = 0, usual_rounding_ = 0;  // usual_rounding_ is relative to how far parameters move
  Deviation deviation_;
};

}  // namespace

Deviation course_deviation(const Trial& trial, const Course& expected, const Course* rounded) {
  return Comparison(trial, expected, rounded).course();
}

Deviation state_deviation(const Trial& trial, const Course& expected, const Course* rounded) {
  return Comparison(trial, expected, rounded).state();
}

namespace {

// The course of a trial in float64, and in the strategy's dtypes if it communicates in a narrower one.
struct Courses {
  explicit Courses(const Trial& trial)
      : exact(course_of(trial.bench, trial.scenario, trial.clip_norm, trial.ranks, /*exact=*/true)) {
    if (trial.bench.strategy.reduced_in)
      narrow = course_of(trial.bench, trial.scenario, trial.clip_norm, trial.ranks, /*exact=*/false);
  }
  const Course* rounded() const { return narrow ? &*narrow : nullptr; }

  Course exact;
  std::optional<Course> narrow;
};

}  // namespace

void judge_other_state(const Trial& trial, Rows& rows) {
  const char compared[] = "a step from a loaded state of another training with the oracle's, optimizer state included";
  const Courses courses(trial);
  const std::string& check = trial.scenario.gradient_check;
  if (!courses.exact.unknown.empty()) return rows.skipped(check, compared, courses.exact.unknown);
  const Deviation step = course_deviation(trial, courses.exact, courses.rounded()),
                  state = state_deviation(trial, courses.exact, courses.rounded());
  const Deviation& worst = step.error > 1 || step.error >= state.error ? step : state;
  rows.measured(check, compared, worst.error, 1, worst.where + ", scenario " + trial.scenario.name,
                "load() left something as it was, or the step depends on more than the loaded state");
}

void judge_unwatched(const Trial& trial, Rows& rows) {
  const Courses courses(trial);
  const Course& course = courses.exact;
  const Course* const rough = courses.rounded();
  const std::string steps = std::to_string(trial.scenario.steps) + " steps that nobody looks at";
  const std::string compared = "losses, parameters and buffers of " + steps + " with the oracle's own",
                    compared_state = "optimizer state after " + steps + " with the oracle's own, by its name";
  if (!course.unknown.empty()) {
    rows.skipped("trajectory", compared, course.unknown);
    return rows.skipped("optimizer-state", compared_state, course.unknown);
  }
  const auto place = [&](const Deviation& deviation) { return deviation.where + ", scenario " + trial.scenario.name; };
  const Deviation found = course_deviation(trial, course, rough);
  rows.measured("trajectory", compared, found.error, 1, place(found), found.likely);
  const auto& reported = trial.ranks[0].steps.back().state;
  for (const auto& [name, due] : course.ranks[0].state)
    if (!find(reported, name) && due.any().item<bool>())
      return rows.skipped("optimizer-state", compared_state, "state() has no tensor \"" + name + "\"");
  if (course.ranks[0].state.empty())
    return rows.skipped("optimizer-state", compared_state, "the optimizer has no state");
  const Deviation state = state_deviation(trial, course, rough);
  rows.measured("optimizer-state", compared_state, state.error, 1, place(state), state.likely);
}

}  // namespace dpbench
