#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "workloads/data/digits.h"
#include "workloads/data/drawn_digits.h"
#include "workloads/data/idx.h"
#include "workloads/data/mnist_files.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "dpbench-data-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string text() const { return path_.string(); }

 private:
  fs::path path_;
};

Bytes idx(uint8_t dimensions, const std::vector<uint32_t>& sizes, const Bytes& payload, uint8_t type = 8) {
  Bytes out{0, 0, type, dimensions};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(size >> shift));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

std::string write(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  return path.string();
}

Bytes gzip(const Bytes& bytes) {
  Bytes out(bytes.size() + 1000);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<unsigned>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes counting(size_t count, int modulo = 251) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i % static_cast<size_t>(modulo));
  return bytes;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

Bytes read_all(const std::string& path, size_t dimensions) {
  IdxFile file(path, dimensions);
  Bytes out(static_cast<size_t>(file.bytes()));
  file.read(out);
  return out;
}

TEST(Idx, ReadsPlainAndGzipAlike) {
  const Folder folder;
  const auto payload = counting(3 * 4 * 5);
  const auto whole = idx(3, {3, 4, 5}, payload);
  EXPECT_EQ(read_all(write(folder / "plain", whole), 3), payload);
  EXPECT_EQ(read_all(write(folder / "packed", gzip(whole)), 3), payload);
  EXPECT_EQ(IdxFile((folder / "packed").string(), 3).sizes(), (std::vector<int64_t>{3, 4, 5}));
}

TEST(Idx, RefusesWhatIsNoIdxFileSayingWhatItFound) {
  const Folder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const auto open = [&](const std::string& p) { return refusal([&] { IdxFile(p, 3); }); };
  expect_words(open(path("absent")), {"absent", "cannot be opened", "No such file"});
  expect_words(open(folder.text()), {folder.text(), "not a regular file"});
  expect_words(open(write(folder / "empty", {})), {"empty", "holds 0 bytes", "16"});
  expect_words(open(write(folder / "short", idx(3, {1, 2}, {}))), {"holds 12 bytes"});
  expect_words(open(write(folder / "labels", idx(1, {20}, counting(20)))), {"0x00000801", "expected 0x00000803"});
  expect_words(open(write(folder / "floats", idx(3, {1, 1, 1}, {1}, 13))), {"0x00000d03"});
  expect_words(open(write(folder / "text", counting(40))), {"0x00010203"});
}

TEST(Idx, BelievesNoSizeThatTheFileCannotHold) {
  const Folder folder;
  const auto open = [&](const Bytes& bytes) { return refusal([&] { IdxFile(write(folder / "file", bytes), 3); }); };
  const auto payload = counting(60);
  expect_words(open(idx(3, {3, 4, 6}, payload)), {"3 x 4 x 6", "60", "76"});
  expect_words(open(idx(3, {3, 4, 4}, payload)), {"3 x 4 x 4"});
  expect_words(open(idx(3, {0xffffffff, 28, 28}, payload)), {"4294967295 x 28 x 28"});
  expect_words(open(idx(3, {0xffffffff, 0xffffffff, 0xffffffff}, payload)), {"4294967295"});
  expect_words(open(idx(3, {0x80000000, 0x80000000, 4}, payload)), {"2147483648"});  // wraps to 0 in 64 bits
  expect_words(open(gzip(idx(3, {0xffffffff, 28, 28}, payload))), {"4294967295", "at most"});
}

TEST(Idx, RefusesAGzipFileThatEndsEarlyGoesOnOrIsDamaged) {
  const Folder folder;
  auto noise = counting(50'000);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 7919 >> 7);
  const auto packed = gzip(idx(3, {50, 20, 50}, noise));
  const auto read = [&](const Bytes& bytes) { return refusal([&] { read_all(write(folder / "packed", bytes), 3); }); };
  EXPECT_EQ(read(packed), "nothing was refused");
  expect_words(read(Bytes(packed.begin(), packed.begin() + std::ssize(packed) / 2)), {"ends after", "50000"});
  expect_words(read(Bytes(packed.begin(), packed.end() - 4)), {"packed"});
  auto damaged = packed;
  damaged[packed.size() - 6] ^= 0x55;  // in the checksum
  expect_words(read(damaged), {"packed"});
  expect_words(read(gzip(idx(3, {50, 20, 49}, noise))), {"goes on", "49000"});
}

// --- a directory with the four files

struct Mnist {
  Folder folder;
  Bytes train = counting(20 * image_bytes), test = counting(5 * image_bytes, 241);
  Bytes train_labels = counting(20, 10), test_labels = counting(5, 10);

  explicit Mnist(const std::string& separator = "-", bool packed = false) {
    const auto put = [&](const std::string& name, const Bytes& bytes) {
      write(folder / (name + (packed ? ".gz" : "")), packed ? gzip(bytes) : bytes);
    };
    put("train-images" + separator + "idx3-ubyte", idx(3, {20, 28, 28}, train));
    put("train-labels" + separator + "idx1-ubyte", idx(1, {20}, train_labels));
    put("t10k-images" + separator + "idx3-ubyte", idx(3, {5, 28, 28}, test));
    put("t10k-labels" + separator + "idx1-ubyte", idx(1, {5}, test_labels));
  }
};

std::unique_ptr<Workload> mlp_on(const std::string& data, const std::string& shared = "") {
  return workload_registry().at("mnist-mlp").make({.data_dir = data, .shared_dir = shared});
}

TEST(DataDirectory, IsReadUnderTheCommonNames) {
  for (const auto* separator : {"-", "."})
    for (const bool packed : {false, true}) {
      const Mnist mnist(separator, packed);
      const auto workload = mlp_on(mnist.folder.text());
      EXPECT_EQ(workload->samples(), 20);
      EXPECT_EQ(workload->test_samples(), 5);
      const auto batch = workload->batch(at::tensor({int64_t{7}, int64_t{3}}));
      EXPECT_EQ(batch.target[0].item<int64_t>(), 7);
      EXPECT_EQ(batch.input[1].flatten()[5].item<float>(),
                static_cast<float>(mnist.train[3 * image_bytes + 5]) / 255.0f);
      EXPECT_EQ(workload->test_batch(at::arange(5)).input.flatten()[240].item<float>(), 240 / 255.0f);
    }
}

TEST(DataDirectory, IsRefusedWhenItsFilesDoNotFit) {
  const auto with = [](const std::string& name, const Bytes& bytes) {
    const Mnist mnist;
    write(mnist.folder / name, bytes);
    return refusal([&] { mlp_on(mnist.folder.text()); });
  };
  const std::string labels = "train-labels-idx1-ubyte", images = "train-images-idx3-ubyte";
  expect_words(with(labels, idx(1, {19}, counting(19, 10))), {labels, "19 labels", "20 images", images});
  expect_words(with(labels, idx(1, {20}, counting(20))), {labels, "label 10 at row 10", "0 to 9"});
  expect_words(with(images, idx(3, {20, 14, 56}, counting(20 * 784))), {images, "14 x 56", "28 x 28"});
  expect_words(with(images, idx(3, {20, 28, 28}, counting(19 * 784))), {images, "20 x 28 x 28"});
  expect_words(with("t10k-labels-idx1-ubyte", idx(3, {5, 28, 28}, counting(5 * 784))), {"t10k-labels", "0x00000803"});
}

TEST(DataDirectory, IsRefusedWhenAFileIsMissing) {
  const Mnist mnist;
  fs::remove(mnist.folder / "t10k-images-idx3-ubyte");
  expect_words(refusal([&] { mlp_on(mnist.folder.text()); }),
               {"--data", mnist.folder.text(), "t10k-images-idx3-ubyte"});
  expect_words(refusal([&] { mlp_on((mnist.folder / "nowhere").string()); }), {"nowhere", "not a directory"});
}

TEST(DataDirectory, IsReadOnceByThoseWhoShare) {
  const Mnist mnist;
  const Folder shared;
  const auto first = mlp_on(mnist.folder.text(), shared.text());
  // Other bytes of the same size: who comes second does not look at them.
  write(mnist.folder / "train-images-idx3-ubyte", idx(3, {20, 28, 28}, Bytes(20 * image_bytes, 0)));
  const auto second = mlp_on(mnist.folder.text(), shared.text());
  EXPECT_TRUE(at::equal(first->batch(at::arange(20)).input, second->batch(at::arange(20)).input));
  EXPECT_GT(second->batch(at::arange(20)).input.sum().item<float>(), 0);
}

// --- drawn digits and shared rows

TEST(DrawnDigits, HoldEachDigitOnceInTenRowsInChangingOrder) {
  std::vector<int> at_first(10);
  for (int64_t ten = 0; ten < 1000; ++ten) {
    std::vector<int> count(10);
    for (int64_t i = 0; i < 10; ++i) ++count[drawn_label(1, ten * 10 + i)];
    ASSERT_EQ(count, std::vector<int>(10, 1)) << ten;
    ++at_first[drawn_label(1, ten * 10)];
  }
  for (const int times : at_first) EXPECT_NEAR(times, 100, 40);
}

Bytes drawn(uint64_t seed, int64_t index) {
  Bytes pixels(image_bytes);
  draw_digit(seed, index, pixels);
  return pixels;
}

TEST(DrawnDigits, DependOnSeedAndIndexAlone) {
  const auto early = drawn(1, 77);
  for (int64_t i = 0; i < 100; ++i) drawn(1, i);
  EXPECT_EQ(drawn(1, 77), early);
  EXPECT_NE(drawn(1, 78), early);
  EXPECT_NE(drawn(2, 77), early);
}

TEST(DrawnDigits, AreInkOnAnEmptyGround) {
  for (int64_t i = 0; i < 200; ++i) {
    const auto pixels = drawn(1, i);
    const auto bright = std::ranges::count_if(pixels, [](uint8_t p) { return p > 100; });
    EXPECT_GT(bright, 15) << i;
    EXPECT_LT(bright, 300) << i;
  }
}

TEST(Batches, HoldTheVeryBitsOfDividingBy255) {
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

TEST(Batches, AreTheSameRowsWhateverTheyAreAskedWith) {
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

ImageSet counted(const std::string& shared, std::atomic<int>& made) {
  return ImageSet::made(shared, "rows", 100, [&made](int64_t row, std::span<uint8_t> pixels, uint8_t& label) {
    ++made;
    std::ranges::fill(pixels, static_cast<uint8_t>(row + 1));
    label = static_cast<uint8_t>(row % 10);
  });
}

TEST(SharedRows, AreMadeOnceAndOnlyWhenAskedFor) {
  const Folder shared;
  std::atomic<int> first_made = 0, second_made = 0;
  const auto first = counted(shared.text(), first_made), second = counted(shared.text(), second_made);
  const std::vector<int64_t> some{5, 50, 5}, more{50, 51};
  first.ensure(some);
  EXPECT_EQ(first_made, 2);
  second.ensure(more);
  EXPECT_EQ(second_made, 1);
  EXPECT_EQ(second.pixels(50)[783], 51);
  EXPECT_EQ(second.label(5), 5);
}

TEST(SharedRows, AreMadeOnceByManyThreads) {
  const Folder shared;
  std::atomic<int> made = 0;
  std::vector<int64_t> all(100);
  for (int64_t i = 0; i < 100; ++i) all[i] = i;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto set = counted(shared.text(), made);
      set.ensure(all);
      for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(set.pixels(i)[0], i + 1);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made, 100);
}

TEST(SharedRows, AreEqualInTwoProcesses) {
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

TEST(SharedRows, OfAMakerThatDiedAreMadeByAnother) {
  const Folder shared;
  std::atomic<int> made = 0;
  const std::vector<int64_t> row{7};
  const pid_t child = fork();
  if (child == 0) {
    ImageSet::made(shared.text(), "rows", 100, [](int64_t, std::span<uint8_t>, uint8_t&) { _exit(0); }).ensure(row);
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto set = counted(shared.text(), made);
  set.ensure(row);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(set.pixels(7)[0], 8);
}

TEST(SharedRows, NeedADirectoryThatCanBeWritten) {
  std::atomic<int> made = 0;
  expect_words(refusal([&] { counted("/nonexistent-dpbench", made); }), {"/nonexistent-dpbench/rows", "No such file"});
}

}  // namespace
}  // namespace dpbench
