// An assertion for messages: checks their values, names and flags, not their wording.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpbench {

inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

}  // namespace dpbench
