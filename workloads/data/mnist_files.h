// Finds the four files of MNIST in a directory under their common names.
#pragma once

#include <cstdint>
#include <string>

namespace dpbench {

struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;
};

// Throws UsageError unless `directory` is a readable directory. Does not look at its files.
void require_data_directory(const std::string& directory);

// Throws UsageError naming the first missing file.
MnistFiles find_mnist(const std::string& directory);

// Throws UsageError unless the four files are present, intact and match. Returns the number of training samples.
int64_t require_mnist(const std::string& directory);

}  // namespace dpbench
