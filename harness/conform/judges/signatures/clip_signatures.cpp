#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/conform/judges/signatures/wrong_gradient.h"

namespace dpbench {
namespace {

double sum_of_squares(const at::Tensor& gradient) { return gradient.square().sum().item<double>(); }

// The expected gradient as the ranks of a mesh axis store it.
struct GradientOnAxis {
  AxisSize axis;
  bool cuts = false;              // true if the axis cuts any parameter
  std::vector<Gradients> pieces;  // by parameter: the pieces of all ranks; a parameter that is not cut has one piece
  std::vector<int64_t> dims;      // by parameter: the dimension that is cut
  double whole = 0;               // sum of squares of the parameters that are not cut
  std::vector<double> of_ranks;   // by rank: sum of squares of its pieces of the parameters that are cut
};

GradientOnAxis on_axis(const WrongGradient& c, const AxisSize& axis) {
  GradientOnAxis result{.axis = axis, .pieces = {}, .dims = {}, .of_ranks = {}};
  result.of_ranks.resize(static_cast<size_t>(axis.size));
  std::vector<TensorCut> cuts;
  if (axis_has(&KnownAxis::cuts_tensors, axis.name)) cuts = first_model(c.trial.bench)->tensor_plan(axis.size).cuts;
  if (axis_has(&KnownAxis::cuts_experts, axis.name)) cuts = first_model(c.trial.bench)->expert_plan(axis.size).cuts;
  for (size_t p = 0; p < c.expected.gradient.size(); ++p) {
    const at::Tensor& gradient = c.expected.gradient[p];
    const auto cut =
        std::ranges::find_if(cuts, [&](const TensorCut& one) { return is_in(c.trial.aliases[p], one.name); });
    result.dims.push_back(cut == cuts.end() ? 0 : cut->dim);
    result.pieces.push_back(cut == cuts.end() ? Gradients{gradient} : gradient.split_with_sizes(cut->sizes, cut->dim));
    if (cut == cuts.end()) {
      result.whole += sum_of_squares(gradient);
      continue;
    }
    result.cuts = true;
    for (size_t rank = 0; rank < result.of_ranks.size(); ++rank)
      result.of_ranks[rank] += sum_of_squares(result.pieces[p][rank]);
  }
  return result;
}

std::vector<GradientOnAxis> on_axes(const WrongGradient& c) {
  std::vector<GradientOnAxis> all;
  if (c.trial.scenario.sample.most_elements > 0) return all;  // a sample of a gradient has no pieces
  for (const AxisSize& axis : c.trial.bench.distribution.mesh_of_ranks())
    if (axis.size > 1) all.push_back(on_axis(c, axis));
  return all;
}

// Returns the gradient if each rank of an axis clips by the norm of its own pieces. by_first: only the first rank
// counts the parameters that are not cut, as it should if the norm were summed over the axis.
Gradients clipped_by_own_pieces(const WrongGradient& c, const GradientOnAxis& on, bool by_first) {
  std::vector<double> factors;
  for (const double own : on.of_ranks) {
    const double squares = own + (by_first && !factors.empty() ? 0 : on.whole);
    factors.push_back(std::min(1.0, *c.trial.clip_norm / (std::sqrt(squares) + 1e-6)));
  }
  const int place = place_on(c.trial.bench.distribution.mesh_of_ranks(), on.axis.name, c.rank);
  Gradients result;
  for (size_t p = 0; p < on.pieces.size(); ++p) {
    Gradients pieces = on.pieces[p];
    for (size_t i = 0; i < pieces.size(); ++i)
      pieces[i] = pieces[i] * factors[pieces.size() > 1 ? i : static_cast<size_t>(place)];
    result.push_back(pieces.size() > 1 ? at::cat(pieces, on.dims[p]) : pieces[0]);
  }
  return result;
}

// Returns how often a parameter occurs in a model: under several names, or in several blocks.
size_t occurrences(const Model& model, const std::vector<std::string>& names) {
  const at::Tensor parameter = model.named_parameters()[names.front()];
  const auto blocks = std::ranges::count_if(model.blocks(), [&](const Block& block) {
    return std::ranges::any_of(block.layers, [&](const auto& layer) {
      return std::ranges::any_of(layer->parameters(), [&](const at::Tensor& one) { return one.is_same(parameter); });
    });
  });
  return std::max(names.size(), static_cast<size_t>(blocks));
}

// Returns the axis over which gradients were summed only after the norm for clipping had been taken: each rank clipped
// by the norm of the sum over the other axes. Returns an empty string if no axis explains the gradients of all ranks,
// or if no rank clipped.
std::string axis_summed_after_the_norm(const WrongGradient& c) {
  const Distribution& distribution = c.trial.bench.distribution;
  const MeshShape mesh = distribution.mesh_of_ranks();
  for (const AxisSize& axis : mesh) {
    if (axis.size == 1 || !axis_has(&KnownAxis::data, axis.name)) continue;
    bool some_clipped = false;
    const auto explains = [&](const Evidence& evidence) {
      const int place = place_on(mesh, axis.name, evidence.rank);
      const auto is_here = [&](const Shard& shard) {
        return place_on(mesh, axis.name, distribution.rank_of(shard.replica)) == place;
      };
      const double factor = std::min(1.0, *c.trial.clip_norm / (norm(c.only(is_here, 1)) + 1e-6));
      some_clipped = some_clipped || factor < 1;
      return std::ranges::all_of(c.wrong, [&](size_t p) {
        const at::Tensor found = c.trial.reported(c.step, p, evidence.rank);
        return relative_error(found, c.expected.gradient[p] * factor, 1e-300) <= c.tolerance;
      });
    };
    if (std::ranges::all_of(c.trial.ranks, explains) && some_clipped) return axis.name;
  }
  return "";
}

}  // namespace

std::vector<Gradients> of_each_rank(const WrongGradient& c) {
  std::vector<Gradients> result;
  if (c.trial.bench.distribution.parallelism != Parallelism::ranks) return result;
  for (int r = 0; r < c.trial.world(); ++r)
    result.push_back(c.only([r](const Shard& shard) { return shard.replica == r; }, c.trial.world()));
  return result;
}

std::vector<Signature> clip_signatures(const WrongGradient& c) {
  if (!c.trial.clip_norm) return {};
  const double limit = *c.trial.clip_norm;
  const auto limited = [&](const Gradients& gradients, double size) {
    return c.scaled(gradients, std::min(1.0, limit / (size + 1e-6)));
  };
  Gradients each, values, mean;
  for (const auto& gradient : c.expected.gradient) {
    each.push_back(gradient * std::min(1.0, limit / std::max(gradient.norm().item<double>(), 1e-300)));
    values.push_back(gradient.clamp(-limit, limit));
  }
  const auto ranks = of_each_rank(c);
  for (const auto& own : ranks) {
    const auto part = c.scaled(limited(own, norm(own)), 1 / static_cast<double>(ranks.size()));
    for (size_t p = 0; p < part.size(); ++p)
      mean.size() <= p ? mean.push_back(part[p]) : void(mean[p] = mean[p] + part[p]);
  }
  std::vector<Signature> list = {{"the gradient was not clipped", c.expected.gradient},
                                 {"each parameter was clipped by its own norm", each},
                                 {"each element was clipped instead of the norm", values},
                                 {"each rank's gradient was clipped before the reduction", mean}};
  for (const GradientOnAxis& on : on_axes(c))
    for (const bool by_first : {true, false})
      if (on.cuts)
        list.push_back({"each rank clipped by the norm of its own pieces: not summed over the axis " + on.axis.name,
                        clipped_by_own_pieces(c, on, by_first)});
  return list;
}

std::string wrong_norm(const WrongGradient& c, double used) {
  if (const std::string axis = axis_summed_after_the_norm(c); !axis.empty())
    return "clipped by a norm that was taken before the sum over the axis " + axis;
  const auto& due = c.expected.gradient;
  const double world = c.trial.world(), squares = std::pow(norm(due), 2);
  double largest = 0;
  for (const auto& gradient : due) largest = std::max(largest, largest_element(gradient));
  std::vector<std::pair<double, std::string>> norms = {{largest, "the largest element, not by the norm"}};
  if (const auto ranks = of_each_rank(c); world > 1 && !ranks.empty()) {
    norms.emplace_back(norm(ranks[static_cast<size_t>(c.rank)]), "the norm of this rank's own gradient");
    norms.emplace_back(norm(due) * world, "the norm of the sum of the ranks' gradients, not of their mean");
    norms.emplace_back(norm(due) * std::sqrt(world), "a norm to which each element was added once for each rank");
  }
  const auto model = first_model(c.trial.bench);
  for (size_t p = 0; p < due.size(); ++p) {
    const auto times = static_cast<double>(occurrences(*model, c.trial.aliases[p]));
    if (times > 1)
      norms.emplace_back(
          std::sqrt(squares + (times - 1) * sum_of_squares(due[p])),
          "a norm in which the tied parameter " + c.trial.names[p] + " was counted " + short_number(times) + " times");
  }
  for (const GradientOnAxis& on : on_axes(c)) {
    const std::string of_axis = " of the axis " + on.axis.name, over_axis = " over the axis " + on.axis.name;
    norms.emplace_back(std::sqrt(squares + (on.axis.size - 1) * on.whole),
                       on.cuts ? "a norm that counts each undivided parameter once for each rank" + of_axis
                               : "a norm to which each element was added once for each rank" + of_axis);
    if (!on.cuts) continue;
    norms.emplace_back(std::sqrt(on.whole), "a norm without the parameters that are cut" + over_axis);
    for (size_t rank = 0; rank < on.of_ranks.size(); ++rank)
      norms.emplace_back(
          std::sqrt(on.whole + on.of_ranks[rank]),
          "a norm with the pieces of rank " + std::to_string(rank) + of_axis + " only: not summed over it");
  }
  // allowed difference between two norms, because torch's clip_grad_norm_ adds 1e-6 to the norm
  constexpr double epsilon = 1e-6;
  for (const auto& [size, name] : norms)
    if (std::abs(used - size) <= 2 * epsilon + c.tolerance * size) return "clipped by " + name;
  return "";
}

}  // namespace dpbench
