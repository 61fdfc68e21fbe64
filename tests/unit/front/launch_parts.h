// Helpers shared by the launcher tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpbench {

inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

// Gives each test process a private directory and removes it afterwards.
class TempDirTest : public testing::Test {
 protected:
  TempDirTest() { std::filesystem::create_directories(root_); }
  ~TempDirTest() override { std::filesystem::remove_all(root_); }
  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("dpbench_launch_" + std::to_string(::getpid()));
};

}  // namespace dpbench
