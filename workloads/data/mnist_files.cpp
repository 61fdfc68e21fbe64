#include "workloads/data/mnist_files.h"

#include <array>
#include <filesystem>

#include "workloads/base/error.h"
#include "workloads/data/image_set.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// Folders, below the given directory, in which MNIST's files are looked for: those of a plain download and of
// torchvision.
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

// Returns the reason why `path` is not a readable directory; an empty string if it is one.
std::string directory_error(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) return "no such directory";
  if (failed) return "cannot be looked at (" + failed.message() + ")";
  return fs::is_directory(status) ? "" : "not a directory";
}

}  // namespace

MnistFiles find_mnist(const std::string& directory) {
  if (const std::string error = directory_error(directory); !error.empty())
    throw UsageError("--data " + directory + ": " + error + ", expected one with the four IDX files of MNIST; " +
                     "leave --data out for drawn digits");
  return {find(directory, "train-images", "idx3-ubyte"), find(directory, "train-labels", "idx1-ubyte"),
          find(directory, "t10k-images", "idx3-ubyte"), find(directory, "t10k-labels", "idx1-ubyte")};
}

int64_t require_mnist(const std::string& directory) {
  const MnistFiles files = find_mnist(directory);
  const int64_t rows = ImageSet::require(files.train_images, files.train_labels);
  const int64_t test_rows = ImageSet::require(files.test_images, files.test_labels);
  if (test_rows > rows)  // there are always more training than test images, so the files were swapped
    throw UsageError(files.test_images + ": " + std::to_string(test_rows) + " images to test with, more than the " +
                     std::to_string(rows) + " to train on in " + files.train_images +
                     "; swap the files, or leave --data out for drawn digits");
  return rows;
}

}  // namespace dpbench
