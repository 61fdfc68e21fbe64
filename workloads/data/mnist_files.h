// The four files of MNIST in a directory, under the names and endings that they commonly have.
#pragma once

#include <cstdint>
#include <string>

namespace dpbench {

struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;
};

// Throws UsageError unless it is a directory that can be looked at, whatever it holds.
void require_data_directory(const std::string& directory);

// Throws UsageError naming the file that is missing and what was looked for.
MnistFiles find_mnist(const std::string& directory);

// Throws UsageError unless the four are there, whole, and fit together. Returns how many rows there are to train on.
int64_t require_mnist(const std::string& directory);

}  // namespace dpbench
