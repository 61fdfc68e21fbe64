// What the tests of the launcher's parts share.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpbench {

inline void expect_says(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

// A folder of the test's own, gone with it.
class Here : public testing::Test {
 protected:
  Here() { std::filesystem::create_directories(root_); }
  ~Here() override { std::filesystem::remove_all(root_); }
  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("dpbench_launch_" + std::to_string(::getpid()));
};

}  // namespace dpbench
