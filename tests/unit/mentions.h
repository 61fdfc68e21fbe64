// Assertions on the names and values in a message, independent of its wording.
#pragma once

#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

namespace dpbench {

// True if `message` contains every word.
inline ::testing::AssertionResult mentions(std::string_view message, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (message.find(word) == std::string_view::npos)
      return ::testing::AssertionFailure() << '"' << word << "\" is missing in: " << message;
  return ::testing::AssertionSuccess();
}

}  // namespace dpbench
