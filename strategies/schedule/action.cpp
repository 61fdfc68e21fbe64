#include "strategies/schedule/action.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

// Parses a whole number without a sign. Returns nullopt for any other text, and for numbers of more than six digits.
std::optional<int> whole_number(std::string_view text) {
  constexpr size_t most_digits = 6;
  int value = 0;
  if (text.empty() || text.size() > most_digits || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

bool is_compute(Kind kind) {
  return kind == Kind::forward || kind == Kind::full_backward || kind == Kind::input_gradient ||
         kind == Kind::weight_gradient;
}

bool is_send(Kind kind) { return kind == Kind::send_activation || kind == Kind::send_gradient; }

bool is_receive(Kind kind) { return kind == Kind::receive_activation || kind == Kind::receive_gradient; }

bool has_microbatch(Kind kind) { return is_compute(kind) || is_send(kind) || is_receive(kind); }

bool ends_weight_gradient(Kind kind) { return kind == Kind::full_backward || kind == Kind::weight_gradient; }

std::string text_of(const Action& action) {
  const std::string microbatch = action.microbatch == no_microbatch ? "" : std::to_string(action.microbatch);
  return std::to_string(action.stage) + name_of(action.kind) + microbatch;
}

std::string described(const Action& action) {
  const std::string microbatch =
      action.microbatch == no_microbatch ? "" : ", micro-batch " + std::to_string(action.microbatch);
  return text_of(action) + " (stage " + std::to_string(action.stage) + microbatch + ")";
}

std::string trace_name(int64_t step, const Action& action) {
  return std::string(trace_prefix) + std::to_string(step) + " " + text_of(action);
}

Action parse_action(std::string_view text, const std::string& where) {
  constexpr std::string_view digits = "0123456789";
  const size_t letters = std::min(text.find_first_not_of(digits), text.size());
  const size_t number = std::min(text.find_first_of(digits, letters), text.size());
  const std::optional<int> stage = whole_number(text.substr(0, letters));
  const std::optional<Kind> kind = parse_name<Kind>(text.substr(letters, number - letters));
  const std::optional<int> microbatch = whole_number(text.substr(number));
  const bool wants_microbatch = kind && has_microbatch(*kind);
  if (!stage || !kind || microbatch.has_value() != wants_microbatch || (!microbatch && number < text.size()))
    throw UsageError(where + ": '" + std::string(text) + "' is no action; write STAGE KIND MICROBATCH, as in 2F0, " +
                     "with a kind of " + all_names<Kind>());
  return {.kind = *kind, .stage = *stage, .microbatch = microbatch.value_or(no_microbatch)};
}

}  // namespace dpbench::pipeline
