// Assertions that a message contains certain values, names or flags, regardless of the message's wording.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace dpbench {

inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

// Succeeds if `message` contains every word; otherwise the failure shows the missing word.
inline ::testing::AssertionResult mentions(std::string_view message, const std::vector<std::string_view>& words) {
  for (const std::string_view word : words)
    if (message.find(word) == std::string_view::npos)
      return ::testing::AssertionFailure() << '"' << word << "\" is missing in: " << message;
  return ::testing::AssertionSuccess();
}

// Succeeds if `message` contains the words in this order, with any text between them.
inline ::testing::AssertionResult mentions_in_order(std::string_view message,
                                                    const std::vector<std::string_view>& words) {
  size_t from = 0;
  for (const std::string_view word : words) {
    const size_t at = message.find(word, from);
    if (at == std::string_view::npos)
      return ::testing::AssertionFailure() << '"' << word << "\" is missing or too early in: " << message;
    from = at + word.size();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace dpbench
