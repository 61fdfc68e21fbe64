// Finds MNIST's four files in a directory, under all names that are in common use.
#pragma once

#include <cstdint>
#include <string>

namespace dpbench {

struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;
};

// Returns the paths of MNIST's four files. Throws UsageError naming the first missing file, or the directory if it
// cannot be read.
MnistFiles find_mnist(const std::string& directory);

// Returns the number of training samples. Throws UsageError unless MNIST's four files are present, intact and match
// each other.
int64_t require_mnist(const std::string& directory);

}  // namespace dpbench
