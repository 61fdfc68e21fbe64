#include "harness/conform/judges/signatures/output_pattern.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "workloads/api/tensor_split.h"

namespace dpbench {
namespace {

// Returns a text if exactly the outputs from the first occurrence of one token on are wrong, as in a causal model that
// embeds this token wrongly; otherwise an empty string. Also returns an empty string if each sample is wrong at all
// positions or at none, because such samples do not show which token is wrong. wrong: a mask with the dimensions
// samples, positions and features.
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

std::string range_text(int64_t first, int64_t last) {
  return std::to_string(first) + (first == last ? "" : " to " + std::to_string(last));
}

// If the tokens first .. last are whole pieces of a sequence that is cut over the tensor-parallel axis, returns a text
// that names the ranks with these pieces; otherwise an empty string.
std::string owners_of_tokens(int64_t first, int64_t last, int64_t tokens, const MeshShape& mesh) {
  const auto axis =
      std::ranges::find_if(mesh, [](const AxisSize& one) { return axis_has(&KnownAxis::cuts_tensors, one.name); });
  if (axis == mesh.end() || size_of(mesh, &KnownAxis::cuts_sequence) > 1) return "";
  const int ranks = axis->size;
  int from = -1, to = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    const Piece piece = piece_of(even_pieces(tokens, ranks), rank);
    if (piece.first == first) from = rank;
    if (piece.first + piece.size - 1 == last) to = rank;
  }
  if (from < 0 || to < from) return "";
  return std::string(", the tokens of rank") + (from == to ? " " : "s ") + range_text(from, to) + " of the axis " +
         axis->name + ": a piece of the sequence that is missing, or another piece";
}

std::string some_indices(const at::Tensor& wrong, int64_t dim, const MeshShape& mesh) {
  const at::Tensor along = wrong.transpose(0, dim).flatten(1).any(1), places = along.nonzero().flatten();
  const auto first = places[0].item<int64_t>(), last = places[-1].item<int64_t>();
  if (last - first + 1 != places.numel() || places.numel() == along.numel()) return "";
  const std::string which = (first == last ? "index " : "indices ") + range_text(first, last);
  const bool of_tokens = dim == 1 && wrong.dim() == 3;
  return "only " + which + " of dimension " + std::to_string(dim) + (first == last ? " is wrong" : " are wrong") +
         (of_tokens ? owners_of_tokens(first, last, along.numel(), mesh) : "");
}

}  // namespace

std::string output_pattern(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& input,
                           const MeshShape& mesh, double tolerance) {
  const at::Tensor due = expected.to(at::kDouble);
  const at::Tensor wrong = (found.to(at::kDouble) - due).abs().le(due.abs().max() * tolerance).logical_not();
  if (wrong.dim() < 2 || !wrong.any().item<bool>()) return "";
  if (auto text = from_a_token(wrong, input); !text.empty()) return text;
  std::string text = some_samples(wrong);
  for (int64_t dim = 1; dim < wrong.dim() && text.empty(); ++dim) text = some_indices(wrong, dim, mesh);
  return text;
}

std::string token_order(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  // outputs with more tokens are not searched, because comparing each token with all others takes quadratic time
  constexpr int64_t most_tokens = 512;
  if (expected.dim() != 3 || expected.size(1) > most_tokens || found.sizes() != expected.sizes()) return "";
  if (!found.isfinite().all().item<bool>()) return "";  // at::cdist ignores NaN
  const auto by_token = [](const at::Tensor& x) { return x.to(at::kDouble).transpose(0, 1).flatten(1).contiguous(); };
  const at::Tensor due = by_token(expected);
  const at::Tensor distances = at::cdist(by_token(found), due, std::numeric_limits<double>::infinity());
  const auto [distance, token] = distances.min(1);
  const at::Tensor in_order = at::arange(expected.size(1));
  if (!distance.le(due.abs().max() * tolerance).all().item<bool>() || token.equal(in_order)) return "";
  std::string spans;
  const auto* of = token.const_data_ptr<int64_t>();
  for (int64_t i = 0, end = 0; i < token.numel(); i = end) {
    for (end = i + 1; end < token.numel() && of[end] == of[end - 1] + 1;) ++end;
    spans += (i ? ", " : "") + range_text(of[i], of[end - 1]);
  }
  const bool each_once = std::get<0>(token.sort()).equal(in_order);
  return (each_once ? "tokens in the wrong order: " : "tokens are missing, others are there twice: ") + spans;
}

}  // namespace dpbench
