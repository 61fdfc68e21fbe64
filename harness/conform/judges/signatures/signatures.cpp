#include "harness/conform/judges/signatures/signatures.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/error_pattern.h"
#include "harness/conform/judges/row_pieces.h"
#include "harness/conform/judges/signatures/wrong_gradient.h"
#include "harness/conform/oracle/narrow_dtype.h"

namespace dpbench {
namespace {

std::string ratio_text(double ratio) { return short_number(ratio) + " times what they should be"; }

// Returns the number of terms (samples or tokens) in a rank's loss: the mean over ranks if the declared gradient is a
// mean over all terms, otherwise the number in one forward pass.
double terms_of_rank(const WrongGradient& c) {
  const auto& shards = c.expected.shards;
  if (shards.empty()) return 1;
  if (c.trial.bench.strategy.gradient != Gradient::global_mean) return static_cast<double>(shards.front().terms);
  double terms = 0;
  for (const auto& shard : shards) terms += static_cast<double>(shard.terms);
  return terms / c.trial.world();
}

// Returns wrong scale factors of a gradient and the bug that causes each, such as a missing division.
std::vector<std::pair<double, std::string>> known_factors(const WrongGradient& c) {
  const Trial& trial = c.trial;
  const double world = trial.world(), micro = static_cast<double>(c.micros());
  std::vector<std::pair<double, std::string>> factors = {
      {0, "never written back after the reduction, or zeroed after the backward pass"}};
  if (world > 1) {
    factors.emplace_back(world, "summed over " + short_number(world) + " ranks or replicas, not averaged");
    factors.emplace_back(1 / world, "averaged over " + short_number(world) + " ranks or replicas once too often");
  }
  if (micro > 1) {
    factors.emplace_back(micro, "not divided by the " + short_number(micro) + " micro-batches");
    factors.emplace_back(1 / micro, "divided by the number of micro-batches twice");
    factors.emplace_back(2 - 1 / micro, "one micro-batch was not divided by their number");
  } else if (world > 1) {
    // Without micro-batches, a division by a wrong number of ranks is considered too. With micro-batches, other
    // mistakes have the same factors.
    factors.emplace_back(world / (world - 1), "divided by one rank too few");
    factors.emplace_back(world / (world + 1), "divided by one rank too many");
  }
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  for (const AxisSize& axis : mesh)
    if (axis.size > 1 && (mesh.size() > 1 || c.trial.shares_replicas())) {
      const std::string ranks = "the " + std::to_string(axis.size) + " ranks of an axis, such as " + axis.name;
      factors.emplace_back(axis.size, "summed over " + ranks + ", not averaged");
      factors.emplace_back(1.0 / axis.size, "averaged over " + ranks + " once too often");
    }
  factors.emplace_back(2, "counted twice");
  factors.emplace_back(-1, "of the wrong sign");
  if (!trial.workload().sum_loss())
    factors.emplace_back(terms_of_rank(c), "summed over samples or tokens, not averaged");
  return factors;
}

std::string by_factor(const WrongGradient& c) {
  double products = 0, squares = 0;
  for (const size_t p : c.wrong) {
    products += (c.found[p] * c.expected.gradient[p]).sum().item<double>();
    squares += c.expected.gradient[p].square().sum().item<double>();
  }
  if (!(squares > 0)) return "";
  const double ratio = products / squares;
  for (const auto& [factor, mistake] : known_factors(c)) {
    if (std::abs(ratio - factor) > 100 * c.tolerance) continue;
    const auto candidate = c.scaled(c.expected.gradient, factor);
    if (factor == 0 ? std::abs(ratio) == 0 && norm(c.found) == 0 : c.looks_like(candidate))
      return "gradients are " + ratio_text(factor) + ": " + mistake;
  }
  if (!c.looks_like(c.scaled(c.expected.gradient, ratio))) return "";
  const double size = norm(c.expected.gradient);
  if (c.trial.clip_norm && ratio > 0)
    if (auto mistake = wrong_norm(c, *c.trial.clip_norm / ratio); !mistake.empty()) return mistake;
  if (c.trial.clip_norm && std::abs(ratio - 1) < 10 * c.tolerance) return "the gradient was not clipped";
  if (c.trial.clip_norm && ratio > 1) return "scaled up to the limit although the norm was below it";
  if (c.trial.clip_norm && ratio * size < *c.trial.clip_norm)
    return "clipped below the limit, perhaps before the reduction";
  return std::abs(ratio - 1) < 0.01 ? "" : "gradients are " + ratio_text(ratio);
}

bool same_on_all_ranks(const WrongGradient& c) {
  for (int rank = 1; rank < static_cast<int>(c.trial.ranks.size()); ++rank)
    for (const size_t p : c.wrong)
      if (!same_bits(c.trial.reported(c.step, p, rank), c.trial.reported(c.step, p))) return false;
  return true;
}

// True if all outputs are correct, so the bug must be after the forward pass.
bool same_forward_pass(const WrongGradient& c) {
  for (const auto& evidence : c.trial.ranks) {
    const at::Tensor due = expected_output(c.trial, c.expected, evidence.rank);
    const at::Tensor& seen = evidence.steps[static_cast<size_t>(c.step)].output;
    if (due.defined() && !(seen.defined() && relative_error(seen, due, 0) <= c.tolerance)) return false;
  }
  return true;
}

Gradients largest_of(const std::vector<Gradients>& ranks) {
  Gradients largest;
  for (const auto& gradients : ranks)
    for (size_t p = 0; p < gradients.size(); ++p)
      largest.size() <= p ? largest.push_back(gradients[p]) : void(largest[p] = at::maximum(largest[p], gradients[p]));
  return largest;
}

std::vector<Signature> shard_signatures(const WrongGradient& c) {
  const double world = c.trial.world();
  std::vector<Signature> list;
  if (c.rank > 0 || !same_on_all_ranks(c))
    list.push_back({"this rank's own gradient: not reduced",
                    c.only([&](const Shard& shard) { return shard.replica == c.trial.replica_of(c.rank); }, world)});
  list.push_back({same_forward_pass(c) ? "rank 0's own gradient: broadcast, not reduced"
                                       : "the gradient of rank 0's samples: every rank reads the same samples",
                  c.only([](const Shard& shard) { return shard.replica == 0; }, world)});
  for (int r = 0; r < c.trial.world() && world > 1; ++r) {
    const auto others = [r](const Shard& shard) { return shard.replica != r; };
    const auto name = std::to_string(r);
    list.push_back({"the part of rank or replica " + name + " is missing", c.only(others, 1)});
    list.push_back({"rank " + name + " was left out of the mean", c.only(others, world / (world - 1))});
    list.push_back(
        {"the part of replica " + name + " only", c.only([r](const Shard& s) { return s.replica == r; }, 1)});
  }
  list.push_back({"the maximum of the ranks' gradients instead of their mean", largest_of(of_each_rank(c))});
  return list;
}

std::vector<Signature> time_signatures(const WrongGradient& c) {
  if (c.step == 0) return {};
  const ExpectedStep& before_it = c.trial.expected[static_cast<size_t>(c.step - 1)];
  const auto& earlier = before_it.gradient;
  Gradients kept, still, replicas;
  std::vector<double> others = before_it.shares;
  for (size_t i = 0; i < others.size(); ++i)
    if (before_it.shards[i].replica == 0) others[i] = 0;
  if (c.trial.bench.distribution.owners() == 1 && !others.empty()) {
    replicas = combine(before_it.shards, others);
    for (size_t p = 0; p < replicas.size(); ++p) replicas[p] = replicas[p] + c.expected.gradient[p];
  }
  for (size_t p = 0; p < c.expected.gradient.size(); ++p) {
    const auto before = c.trial.reported(c.step - 1, p, c.rank);
    kept.push_back(before.defined() ? c.expected.gradient[p] + before.to(at::kDouble) : c.expected.gradient[p]);
    still.push_back(before.defined() ? before.to(at::kDouble) : at::zeros_like(c.expected.gradient[p]));
  }
  return {{"the gradient of the step before was added: gradients were not zeroed", kept},
          {"the gradient of the step before was added: replicas other than the first were not zeroed", replicas},
          {"the gradient of the step before: one step late", earlier},
          {"the gradient of the step before: nothing new was written", still}};
}

at::Tensor joined(const WrongGradient& c, const Gradients& gradients) {
  std::vector<at::Tensor> parts;
  for (const size_t p : c.wrong) parts.push_back(gradients[p].flatten());
  return at::cat(parts);
}

bool permuted(const WrongGradient& c) {
  const at::Tensor found = std::get<0>(joined(c, c.found).sort()),
                   due = std::get<0>(joined(c, c.expected.gradient).sort());
  return relative_error(found, due, 1e-300) <= c.tolerance;
}

std::string listed(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers)
    text += (text.empty() ? "" : ", ") + short_number(std::abs(number) < 1e-9 ? 0 : number);
  return text;
}

// Returns a diagnosis if the gradient is a linear combination of the gradients of the forward passes with unexpected
// weights; otherwise an empty string.
std::string by_shares(const WrongGradient& c) {
  const auto count = static_cast<int64_t>(c.expected.shards.size());
  const at::Tensor found = joined(c, c.found);
  if (c.trial.scenario.dtype != at::kDouble || count < 2 || found.numel() < 2 * count) return "";
  std::vector<at::Tensor> columns;
  for (const auto& shard : c.expected.shards) columns.push_back(joined(c, shard.gradient).to(at::kDouble));
  const at::Tensor parts = at::stack(columns, 1);
  const at::Tensor shares = std::get<0>(at::linalg_lstsq(parts, found.unsqueeze(1), {}, "gelsd"));
  if (!(relative_error(parts.matmul(shares).squeeze(1), found, 1e-300) <= 1e-7)) return "";
  std::vector<double> seen(shares.data_ptr<double>(), shares.data_ptr<double>() + count);
  const bool as_due = std::equal(seen.begin(), seen.end(), c.expected.shares.begin(),
                                 [](double a, double b) { return std::abs(a - b) < 1e-6; });
  if (as_due) return "the combination of all ranks instead of each rank's own gradient";
  const auto mine = [&](size_t i) { return c.expected.shards[i].replica == c.trial.replica_of(c.rank); };
  bool partly = c.trial.world() > 1 && c.trial.bench.distribution.owners() > 1;
  for (size_t i = 0; i < seen.size(); ++i) partly = partly && mine(i) == (seen[i] > c.expected.shares[i] * (1 + 1e-6));
  return std::string(partly ? "only a part of it is reduced, the rest is this rank's own: " : "") + "the parts of " +
         (c.micros() > 1 ? "ranks' micro-batches" : "ranks or replicas") + " have the shares " + listed(seen) +
         ", expected " + listed(c.expected.shares);
}

// Returns a diagnosis if the ranks of one replica report gradients that add up to the expected gradient, because the
// strategy did not sum them. Otherwise returns an empty string.
std::string by_axes(const WrongGradient& c) {
  const MeshShape& mesh = c.trial.bench.distribution.mesh;
  for (size_t axis = 0; axis < mesh.size(); ++axis)
    for (const std::vector<int>& group : groups_of_axis(mesh, axis)) {
      const bool one_replica = c.trial.replica_of(group.front()) == c.trial.replica_of(group.back());
      if (!one_replica || std::ranges::count(group, c.rank) == 0) continue;
      const auto adds_up = [&](size_t p) {
        at::Tensor sum = at::zeros_like(c.expected.gradient[p]);
        for (const int rank : group)
          if (const at::Tensor its = c.trial.reported(c.step, p, rank); its.defined()) sum += its.to(at::kDouble);
        return relative_error(sum, c.expected.gradient[p], 1e-300) <= c.tolerance;
      };
      if (std::ranges::all_of(c.wrong, adds_up))
        return "the gradient of what this rank computed alone: not summed over the axis " + mesh[axis].name;
    }
  return "";
}

std::string by_statistics(const WrongGradient& c) {
  const bool forward = same_forward_pass(c);
  if (c.trial.couples_samples())
    return forward ? "BatchNorm's sums of the backward pass do not cover the samples of all ranks"
                   : "BatchNorm's statistics do not cover the samples of all ranks";
  if (forward) return "";
  if (c.step > 0 && c.step == c.trial.scenario.reload_before)
    return "the forward pass after load() already differs: parameters or buffers were not restored as they were";
  return std::string("the forward pass already differs: other samples, parameters, dropout masks or statistics") +
         (c.trial.shares_replicas() ? ", or a sum over the ranks of one replica that is missing or made twice" : "");
}

std::string by_elements(const WrongGradient& c) {
  for (const size_t p : c.wrong)
    if (const auto text = error_pattern(c.found[p], c.expected.gradient[p], c.tolerance); !text.empty())
      return "parameter " + c.trial.names[p] + ": " + text;
  return "";
}

// Returns a diagnosis if a rank contributed the gradient of another parameter of the same shape.
std::string by_exchange(const WrongGradient& c) {
  const size_t p = c.wrong.front();
  const auto& shards = c.expected.shards;
  for (size_t q = 0; q < c.expected.gradient.size(); ++q) {
    if (q == p || c.expected.gradient[q].sizes() != c.expected.gradient[p].sizes()) continue;
    for (int rank = 0; rank < c.trial.world(); ++rank) {
      at::Tensor exchanged = c.expected.gradient[p];
      for (size_t i = 0; i < shards.size(); ++i)
        if (shards[i].replica == rank)
          exchanged = exchanged + (shards[i].gradient[q].to(at::kDouble) - shards[i].gradient[p].to(at::kDouble)) *
                                      c.expected.shares[i];
      if (relative_error(c.found[p], exchanged, 1e-300) <= c.tolerance)
        return "rank " + std::to_string(rank) + " filled a bucket in another order: its part of parameter " +
               c.trial.names[p] + " is that of " + c.trial.names[q];
    }
  }
  return "";
}

// The reported and the expected gradient, restricted to the tensor rows that one rank of a sharded strategy stores.
struct RowsOfRank {
  RowsOfRank(const WrongGradient& c, int piece, int pieces) : expected(c.expected), found(c.found) {
    for (const size_t p : c.wrong) {
      if (c.found[p].dim() == 0) continue;
      const auto cut = [&](at::Tensor& tensor) { tensor = rows_of_piece(tensor, piece, pieces); };
      cut(found[p]), cut(expected.gradient[p]);
      for (Shard& shard : expected.shards) cut(shard.gradient[p]);
      if (found[p].numel() > 0 && !(relative_error(found[p], expected.gradient[p], 1e-300) <= c.tolerance))
        wrong.push_back(p);
    }
  }
  ExpectedStep expected;
  Gradients found;
  std::vector<size_t> wrong;
};

// True if the gradient in the rows of each rank is a multiple of the expected gradient.
bool each_piece_is_scaled(const WrongGradient& c, int pieces) {
  for (int piece = 0; piece < pieces; ++piece) {
    const RowsOfRank rows(c, piece, pieces);
    // The rank's rows are correct if their norm is below the limit, because the rank then does not clip them.
    if (rows.wrong.empty()) continue;
    double products = 0, squares = 0;
    for (const size_t p : rows.wrong) {
      products += (rows.found[p] * rows.expected.gradient[p]).sum().item<double>();
      squares += rows.expected.gradient[p].square().sum().item<double>();
    }
    const WrongGradient own{c.trial, rows.expected, c.step, c.rank, rows.wrong, rows.found, c.tolerance};
    if (!(squares > 0) || !own.looks_like(own.scaled(rows.expected.gradient, products / squares))) return false;
  }
  return true;
}

// Returns a diagnosis for a sharded strategy, found by examining the rows of each rank on their own.
std::string by_pieces(const WrongGradient& c) {
  const int pieces = row_pieces(c.trial);
  if (c.trial.clip_norm && pieces > 1 && each_piece_is_scaled(c, pieces))
    return "each rank clipped its own rows by a norm of its own";
  for (int piece = 0; piece < pieces && pieces > 1; ++piece) {
    const RowsOfRank rows(c, piece, pieces);
    const WrongGradient own{c.trial, rows.expected, c.step, c.rank, rows.wrong, rows.found, c.tolerance};
    if (own.wrong.empty()) continue;
    const std::string where = "in the rows of rank " + std::to_string(piece) + " of " + std::to_string(pieces) + ": ";
    for (int other = 0; other < pieces; ++other) {
      const auto holds = [&](size_t p) {
        const at::Tensor its = rows_of_piece(c.expected.gradient[p], other, pieces, own.found[p].size(0));
        return its.sizes() == own.found[p].sizes() && relative_error(own.found[p], its, 1e-300) <= c.tolerance;
      };
      if (other != piece && std::ranges::all_of(own.wrong, holds))
        return where + "the gradient of the rows of rank " + std::to_string(other);
    }
    for (const auto by : {by_factor, by_exchange, by_shares})
      if (auto text = by(own); !text.empty()) return where + text;
  }
  return "";
}

// Returns a diagnosis based on one layer only: the last layer with wrong gradients, which the backward pass computes
// first. Wrong gradients of earlier layers may be a consequence of this layer's.
std::string by_last_layer(const WrongGradient& c) {
  constexpr int64_t enough = 16;  // a layer of fewer elements is not diagnosed: it may match a known bug by chance
  const auto layer_of = [&](size_t p) { return c.trial.names[p].substr(0, c.trial.names[p].rfind('.')); };
  const std::string layer = layer_of(c.wrong.back());
  WrongGradient last = c;
  std::erase_if(last.wrong, [&](size_t p) { return layer_of(p) != layer; });
  if (c.trial.clip_norm || joined(last, last.found).numel() < enough) return "";
  for (const auto by : {by_factor, by_axes})
    if (const std::string text = by(last); !text.empty()) return "from " + layer + " on, " + text;
  return "";
}

// Returns a diagnosis if most gradients are wrong although the outputs are correct.
std::string by_passes(const WrongGradient& c) {
  if (2 * c.wrong.size() <= c.expected.gradient.size() || !same_forward_pass(c)) return "";
  const std::string last = by_last_layer(c);
  return "the outputs are right, the backward pass is not: " +
         (!last.empty() ? last
                        : std::string("a part of the loss without gradient, a layer recomputed differently, or "
                                      "gradients changed after it") +
                              (c.trial.bench.distribution.mesh.size() > 1 ? ", or reduced over another axis" : ""));
}

constexpr char read_too_early[] =
    "the result of a collective is read, or its input changed, before the collective has ended";

std::string extent(const WrongGradient& c) {
  if (c.wrong.size() == c.expected.gradient.size()) return "";
  std::string names;
  for (size_t i = 0; i < c.wrong.size() && i < 3; ++i) names += (i ? ", " : "") + c.trial.names[c.wrong[i]];
  return " (" + std::to_string(c.wrong.size()) + " of " + std::to_string(c.expected.gradient.size()) +
         " parameters: " + names + (c.wrong.size() > 3 ? ", ..." : "") +
         (c.trial.shares_replicas() ? ")" : ": one bucket?)");
}

std::string mistake_of(const WrongGradient& c) {
  for (const size_t p : c.wrong) {
    if (!c.found[p].defined()) return "no gradient was reported for a parameter that has one";
    if (c.found[p].isfinite().all().item<bool>()) continue;
    if (c.trial.scenario.huge)
      return "the sum exceeded the range of the dtype in which gradients are communicated: divide before the reduction";
    return c.trial.scenario.late ? read_too_early : "not finite, but the oracle is";
  }
  if (auto text = by_factor(c); !text.empty()) return text;
  for (const auto& list : {clip_signatures(c), shard_signatures(c), weight_signatures(c), time_signatures(c)})
    for (const auto& [mistake, gradients] : list)
      if (c.explained_by(gradients)) return mistake;
  if (auto text = rounded_to_narrow_dtype(c.trial, c.expected, c.wrong, c.found); !text.empty()) return text;
  if (permuted(c)) return "the right values in the wrong order";
  if (c.trial.scenario.late && same_forward_pass(c)) return read_too_early;
  for (const auto by : {by_axes, by_exchange, by_shares, by_statistics, by_pieces, by_passes, by_elements})
    if (auto text = by(c); !text.empty()) return text;
  return "";
}

}  // namespace

std::string likely_mistake(const Trial& trial, int64_t step, int rank, const std::vector<size_t>& wrong) {
  ExpectedStep expected = trial.expected[static_cast<size_t>(step)];
  expected.gradient = expected.gradient_of(rank);
  WrongGradient c{trial,
                  expected,
                  step,
                  rank,
                  {},
                  Gradients(expected.gradient.size()),
                  trial.scenario.dtype == at::kDouble ? 1e-10 : 1e-4};
  if (const auto narrow = trial.bench.strategy.reduced_in) c.tolerance = 8 * unit_roundoff(*narrow);
  for (const size_t p : wrong) {
    // A gradient that is zero up to rounding, such as a bias's before BatchNorm, is skipped: it has no direction to
    // compare.
    if (expected.gradient[p].norm().item<double>() < 1e-9 * norm(expected.gradient) && wrong.size() > 1) continue;
    c.wrong.push_back(p);
    const at::Tensor found = trial.reported(step, p, rank);
    if (found.defined() && found.sizes() != expected.gradient[p].sizes()) return "of another shape than its parameter";
    if (found.defined()) c.found[p] = found.to(at::kDouble);
  }
  if (c.wrong.empty()) return "";
  const std::string mistake = mistake_of(c);
  return mistake.empty() ? "" : mistake + extent(c);
}

}  // namespace dpbench
