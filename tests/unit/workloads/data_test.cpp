#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/idx_files.h"
#include "workloads/data/digits.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace {

std::unique_ptr<Workload> mlp_with(const std::string& data, const std::string& shared = "") {
  return workload_registry().at("mnist-mlp").make({.data_dir = data, .shared_dir = shared});
}

TEST(DataDirectory, AcceptsMnistFileNamesWithDashOrDotPlainOrGzipped) {
  for (const auto* separator : {"-", "."})
    for (const bool packed : {false, true}) {
      const Mnist mnist(separator, packed);
      const auto workload = mlp_with(mnist.folder.text());
      EXPECT_EQ(workload->samples(), 20);
      EXPECT_EQ(workload->test_samples(), 5);
      const auto batch = workload->batch(at::tensor({int64_t{7}, int64_t{3}}));
      EXPECT_EQ(batch.target[0].item<int64_t>(), 7);
      EXPECT_EQ(batch.input[1].flatten()[5].item<float>(),
                static_cast<float>(mnist.train[3 * image_bytes + 5]) / 255.0f);
      EXPECT_EQ(workload->test_batch(at::arange(5)).input.flatten()[240].item<float>(), 240 / 255.0f);
    }
}

TEST(DataDirectory, IsReadOnceIfTwoWorkloadsShareItsDataInMemory) {
  const Mnist mnist;
  const Folder shared;
  const auto first = mlp_with(mnist.folder.text(), shared.text());
  // The data files get other bytes of the same size. The second workload must use the data that the first has shared in
  // memory.
  write(mnist.folder / "train-images-idx3-ubyte", idx(3, {20, 28, 28}, Bytes(20 * image_bytes, 0)));
  const auto second = mlp_with(mnist.folder.text(), shared.text());
  EXPECT_TRUE(at::equal(first->batch(at::arange(20)).input, second->batch(at::arange(20)).input));
  EXPECT_GT(second->batch(at::arange(20)).input.sum().item<float>(), 0);
}

TEST(Batches, PixelsAreExactlyTheBytesOrTheBytesDividedBy255) {
  Folder folder;
  Bytes images(image_bytes);
  for (size_t i = 0; i < 256; ++i) images[i] = static_cast<uint8_t>(i);
  const auto image_path = write(folder / "i", idx(3, {1, 28, 28}, images));
  const auto set = ImageSet::read("", image_path, write(folder / "l", idx(1, {1}, {4})));
  const auto unit = images_to_batch(set, at::zeros({1}, at::kLong), PixelRange::unit).input.flatten();
  const auto bytes = images_to_batch(set, at::zeros({1}, at::kLong), PixelRange::bytes).input.flatten();
  for (int64_t i = 0; i < 256; ++i) {
    EXPECT_EQ(unit[i].item<float>(), static_cast<float>(i) / 255.0f) << i;
    EXPECT_EQ(bytes[i].item<float>(), static_cast<float>(i)) << i;
  }
}

TEST(Batches, ASampleIsTheSameWhateverOthersAreInTheBatch) {
  const auto convnet = workload_registry().at("convnet").make({});
  const auto ids = at::tensor({int64_t{59'999}, int64_t{3}, int64_t{3}, int64_t{0}});
  const auto together = convnet->batch(ids);
  EXPECT_EQ(together.input.sizes(), (std::vector<int64_t>{4, 1, 28, 28}));
  EXPECT_EQ(together.target.scalar_type(), at::kLong);
  EXPECT_TRUE(at::equal(together.ids, ids));
  for (int64_t i = 0; i < 4; ++i) {
    const auto alone = convnet->batch(ids.slice(0, i, i + 1));
    EXPECT_TRUE(at::equal(alone.input[0], together.input[i]));
    EXPECT_EQ(alone.target[0].item<int64_t>(), together.target[i].item<int64_t>());
  }
  const auto strided = convnet->batch(ids.slice(0, 0, 4, 3));
  EXPECT_TRUE(at::equal(strided.input[1], together.input[3]));
}

TEST(Batches, RefuseASampleThatDoesNotExist) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  EXPECT_EQ(workload->samples(), 60'000);
  EXPECT_EQ(workload->test_samples(), 10'000);
  EXPECT_THROW(workload->batch(at::full({1}, 60'000, at::kLong)), std::runtime_error);
  EXPECT_THROW(workload->batch(at::full({1}, -1, at::kLong)), std::runtime_error);
  EXPECT_THROW(workload->test_batch(at::full({1}, 10'000, at::kLong)), std::runtime_error);
}

TEST(SharedSamples, AreEqualInTwoProcesses) {
  const Folder shared;
  const auto ids = at::arange(0, 600, 3);
  const auto expected = workload_registry().at("mnist-mlp").make({})->batch(ids).input;
  std::vector<pid_t> children;
  for (int c = 0; c < 2; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      const auto workload = workload_registry().at("mnist-mlp").make({.shared_dir = shared.text()});
      workload->prepare(ids);
      _exit(at::equal(workload->batch(ids).input, expected) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(fs::exists(shared / "drawn-train.rows"));
}

TEST(TensorFile, RoundTripsEverySupportedDtypeExactlyAndRefusesComplex) {
  const Folder folder;
  TensorFile file{.tensors = {}, .metadata = {{"workload", "mnist-mlp"}}};
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool, at::kUInt16, at::kUInt32, at::kUInt64})
    file.tensors.emplace_back(at::toString(type), at::arange(12).reshape({3, 4}).to(type).t());
  file.tensors.emplace_back("empty", at::empty({0, 3}));
  file.tensors.emplace_back("scalar", at::scalar_tensor(2.5));
  file.tensors.emplace_back("undefined", at::Tensor());
  const std::string path = (folder / "x").string();
  save_tensors(path, file);
  const TensorFile loaded = load_tensors(path, "--resume");
  EXPECT_EQ(loaded.tensors.size(), file.tensors.size() - 1);
  EXPECT_EQ(loaded.metadata, file.metadata);
  for (const auto& [name, tensor] : file.tensors) {
    const at::Tensor same = loaded.find(name);
    EXPECT_EQ(same.defined(), tensor.defined()) << name;
    if (!tensor.defined()) continue;
    EXPECT_EQ(same.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(same, tensor)) << name;
  }
  file.tensors = {{"complex", at::zeros({1}, at::kComplexFloat)}};
  EXPECT_THROW(save_tensors(path, file), std::runtime_error);
}

}  // namespace
}  // namespace dpbench
