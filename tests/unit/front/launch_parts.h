// Fixture of the launcher tests: a private temporary directory.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace dpbench {

// Gives each test process a private directory and removes it afterwards.
class TempDirTest : public testing::Test {
 protected:
  TempDirTest() { std::filesystem::create_directories(root_); }
  ~TempDirTest() override { std::filesystem::remove_all(root_); }
  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("dpbench_launch_" + std::to_string(::getpid()));
};

}  // namespace dpbench
