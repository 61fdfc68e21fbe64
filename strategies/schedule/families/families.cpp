#include "strategies/schedule/families/families.h"

#include <algorithm>

#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

std::string no_refusal(const Request&) { return ""; }

std::string dualpipe_refusal(const Request& request) {
  if (request.ranks % 2 == 1) return "an even number of ranks";
  if (request.microbatches % 2 == 1) return "an even number of micro-batches";
  return request.microbatches < 2 * request.ranks ? "two micro-batches or more for each rank" : "";
}

std::optional<double> full_backward_bubble(const Request& request, const Costs& costs) {
  return (request.ranks - 1) * (costs.forward + costs.input_gradient + costs.weight_gradient);
}

std::optional<double> interleaved_bubble(const Request& request, const Costs& costs) {
  if (request.microbatches % request.ranks != 0) return std::nullopt;
  return full_backward_bubble(request, costs);
}

bool equal_costs(const Costs& costs) {
  return costs.forward == costs.input_gradient && costs.forward == costs.weight_gradient;
}

std::optional<double> zb_h1_bubble(const Request& request, const Costs& costs) {
  if (request.microbatches < request.ranks || costs.weight_gradient > costs.forward) return std::nullopt;
  return (request.ranks - 1) * (costs.forward + costs.input_gradient - costs.weight_gradient);
}

std::optional<double> zb_h2_bubble(const Request& request, const Costs& costs) {
  if (request.microbatches < 2 * request.ranks - 1 || !equal_costs(costs)) return std::nullopt;
  return (request.ranks - 1) * (costs.forward + costs.input_gradient - 2 * costs.weight_gradient);
}

std::optional<double> zbv_bubble(const Request& request, const Costs& costs) {
  if (request.microbatches < 2 * request.ranks - 1 || !equal_costs(costs)) return std::nullopt;
  return 0;
}

std::optional<double> dualpipe_bubble(const Request& request, const Costs& costs) {
  const bool exact = costs.forward == costs.input_gradient && costs.weight_gradient <= costs.forward;
  if (!exact || costs.overlapped >= 0) return std::nullopt;
  const int pairs = request.ranks / 2;
  return (pairs - 1) * (costs.forward + 2 * costs.input_gradient - costs.weight_gradient);
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {{.name = "gpipe",
                                           .summary = "all forward passes, then all backward passes",
                                           .source = "arXiv 1811.06965",
                                           .bubble_text = "(P-1)(F+B+W)",
                                           .refusal = no_refusal,
                                           .make = make_gpipe,
                                           .bubble = full_backward_bubble},
                                          {.name = "1f1b",
                                           .summary = "one forward and one backward pass in turn",
                                           .source = "arXiv 1806.03377",
                                           .bubble_text = "(P-1)(F+B+W)",
                                           .refusal = no_refusal,
                                           .make = make_1f1b,
                                           .bubble = full_backward_bubble},
                                          {.name = "interleaved",
                                           .summary = "1F1B with V stages on each rank",
                                           .source = "arXiv 2104.04473",
                                           .requires_text = "V >= 2",
                                           .bubble_text = "(P-1)(F+B+W)/V",
                                           .exact_text = "M a multiple of P",
                                           .least_chunks = 2,
                                           .most_chunks = 1024,
                                           .refusal = no_refusal,
                                           .make = make_interleaved,
                                           .bubble = interleaved_bubble},
                                          {.name = "zb-h1",
                                           .summary = "split backward pass, memory of 1F1B",
                                           .source = "arXiv 2401.10241",
                                           .bubble_text = "(P-1)(F+B-W)",
                                           .exact_text = "M >= P, W <= F",
                                           .refusal = no_refusal,
                                           .make = make_zb_h1,
                                           .bubble = zb_h1_bubble},
                                          {.name = "zb-h2",
                                           .summary = "split backward pass, about twice the memory",
                                           .source = "arXiv 2401.10241",
                                           .bubble_text = "(P-1)(F+B-2W)",
                                           .exact_text = "M >= 2P-1, F = B = W",
                                           .bubble_of = BubbleOf::span,
                                           .refusal = no_refusal,
                                           .make = make_zb_h2,
                                           .bubble = zb_h2_bubble},
                                          {.name = "zbv",
                                           .summary = "split backward pass, two stages on each rank as a V",
                                           .source = "arXiv 2405.15362",
                                           .requires_text = "V = 2",
                                           .bubble_text = "0",
                                           .exact_text = "M >= 2P-1, F = B = W",
                                           .bubble_of = BubbleOf::span,
                                           .least_chunks = 2,
                                           .most_chunks = 2,
                                           .refusal = no_refusal,
                                           .make = make_zbv,
                                           .bubble = zbv_bubble},
                                          {.name = "dualpipe",
                                           .summary = "both directions at once, every stage twice; simulated only",
                                           .source = "arXiv 2412.19437",
                                           .requires_text = "P and M even, M >= 2P",
                                           .bubble_text = "(P/2-1)(F+2B-W)",
                                           .exact_text = "F = B, W <= F",
                                           .refusal = dualpipe_refusal,
                                           .make = make_dualpipe,
                                           .bubble = dualpipe_bubble}};
  return all;
}

const Family* find_family(const std::string& name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : &*found;
}

Schedule make_schedule(const Family& family, const Request& request) {
  const auto refuse = [&](const std::string& needs) {
    throw UsageError(family.name + " needs " + needs + ", not " + std::to_string(request.ranks) + " ranks with " +
                     std::to_string(request.chunks) + " chunks each and " + std::to_string(request.microbatches) +
                     " micro-batches");
  };
  if (request.chunks < family.least_chunks || request.chunks > family.most_chunks)
    refuse(family.most_chunks > family.least_chunks
               ? std::to_string(family.least_chunks) + " chunks or more on each rank"
               : std::to_string(family.least_chunks) + (family.least_chunks == 1 ? " chunk" : " chunks") +
                     " on each rank");
  if (const std::string needs = family.refusal(request); !needs.empty()) refuse(needs);
  Schedule schedule = family.make(request);
  schedule.name = family.name;
  return schedule;
}

}  // namespace dpbench::pipeline
