// Parses numbers. Does not depend on torch.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace dpbench {

// Parses the whole text as a number. Returns nullopt if the text is not a number or the type cannot hold the number.
// std::from_chars defines the syntax: it takes neither spaces nor a leading '+', and its decimal point is always '.'.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char *first = text.data(), *last = first + text.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc{} || end != last) return std::nullopt;
  return number;
}

}  // namespace dpbench
