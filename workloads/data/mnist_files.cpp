#include "workloads/data/mnist_files.h"

#include <array>
#include <filesystem>

#include "workloads/data/image_set.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// As unpacked by hand, as torchvision lays them out, with or without gzip.
constexpr std::array folders = {"", "raw", "MNIST/raw"};
constexpr std::array separators = {"-", "."};
constexpr std::array endings = {"", ".gz"};

std::string find(const fs::path& directory, const std::string& set, const std::string& kind) {
  for (const auto* folder : folders)
    for (const auto* separator : separators)
      for (const auto* ending : endings) {
        const auto path = directory / folder / (set + separator + kind + ending);
        std::error_code ignored;
        if (fs::exists(path, ignored)) return path.string();
      }
  const std::string name = set + "-" + kind;
  throw UsageError("--data " + directory.string() + ": no " + name + ", expected the four IDX files of MNIST there " +
                   "(plain or .gz); leave --data out for drawn digits");
}

}  // namespace

MnistFiles find_mnist(const std::string& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    throw UsageError("--data " + directory + ": not a directory, expected one with the four IDX files of MNIST; " +
                     "leave --data out for drawn digits");
  return {find(directory, "train-images", "idx3-ubyte"), find(directory, "train-labels", "idx1-ubyte"),
          find(directory, "t10k-images", "idx3-ubyte"), find(directory, "t10k-labels", "idx1-ubyte")};
}

void require_mnist(const std::string& directory) {
  const MnistFiles files = find_mnist(directory);
  ImageSet::require(files.train_images, files.train_labels);
  ImageSet::require(files.test_images, files.test_labels);
}

}  // namespace dpbench
