#include "harness/conform/judges/output_pattern.h"

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// Returns a text if exactly the outputs from the first occurrence of one token on are wrong, as in a causal model that
// embeds this token wrongly. Samples that are wrong as a whole do not show the token. wrong: [samples, positions, ..].
std::string from_a_token(const at::Tensor& wrong, const at::Tensor& input) {
  if (!at::isIntegralType(input.scalar_type(), /*includeBool=*/false) || input.dim() != 2 || wrong.dim() != 3)
    return "";
  const at::Tensor places = wrong.any(2);
  if (places.sizes() != input.sizes() || places.any(1).equal(places.all(1))) return "";
  const at::Tensor first = places.nonzero()[0];
  const at::Tensor token = input[first[0].item<int64_t>()][first[1].item<int64_t>()];
  if (!places.equal(input.eq(token).cumsum(1).gt(0))) return "";
  return "each sample is wrong from the token " + std::to_string(token.item<int64_t>()) + " on, if it has it";
}

std::string some_samples(const at::Tensor& wrong) {
  const at::Tensor samples = wrong.flatten(1).any(1), numbers = samples.nonzero().flatten();
  if (samples.all().item<bool>()) return "";
  std::string list;
  for (int64_t i = 0; i < numbers.numel() && i < 8; ++i)
    list += (i ? ", " : "") + std::to_string(numbers[i].item<int64_t>());
  return "only samples " + list + (numbers.numel() > 8 ? ", .." : "") + " of " + std::to_string(samples.numel()) +
         " are wrong";
}

std::string some_indices(const at::Tensor& wrong, int64_t dim) {
  const at::Tensor along = wrong.transpose(0, dim).flatten(1).any(1), places = along.nonzero().flatten();
  const auto first = places[0].item<int64_t>(), last = places[-1].item<int64_t>();
  if (last - first + 1 != places.numel() || places.numel() == along.numel()) return "";
  const std::string which = first == last ? "index " + std::to_string(first)
                                          : "indices " + std::to_string(first) + " to " + std::to_string(last);
  return "only " + which + " of dimension " + std::to_string(dim) + (first == last ? " is wrong" : " are wrong");
}

}  // namespace

std::string output_pattern(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& input,
                           double tolerance) {
  const at::Tensor due = expected.to(at::kDouble);
  const at::Tensor wrong = (found.to(at::kDouble) - due).abs().le(due.abs().max() * tolerance).logical_not();
  if (wrong.dim() < 2 || !wrong.any().item<bool>()) return "";
  if (auto text = from_a_token(wrong, input); !text.empty()) return text;
  std::string text = some_samples(wrong);
  for (int64_t dim = 1; dim < wrong.dim() && text.empty(); ++dim) text = some_indices(wrong, dim);
  return text;
}

}  // namespace dpbench
