#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/support/idx_files.h"
#include "workloads/data/drawn_digits.h"
#include "workloads/data/idx.h"
#include "workloads/data/image_set.h"
#include "workloads/data/mnist_files.h"
#include "workloads/data/pixels.h"

namespace dpbench {
namespace {

Bytes read_all(const std::string& path, size_t dimensions) {
  IdxFile file(path, dimensions);
  Bytes out(static_cast<size_t>(file.bytes()));
  file.read(out);
  return out;
}

TEST(Idx, ReadsPlainAndGzipFiles) {
  const Folder folder;
  const auto payload = counting(3 * 4 * 5);
  const auto whole = idx(3, {3, 4, 5}, payload);
  EXPECT_EQ(read_all(write(folder / "plain", whole), 3), payload);
  EXPECT_EQ(read_all(write(folder / "packed", gzip(whole)), 3), payload);
  EXPECT_EQ(IdxFile((folder / "packed").string(), 3).sizes(), (std::vector<int64_t>{3, 4, 5}));
}

TEST(Idx, RefusesFilesOfOtherFormatsAndReportsTheirHeader) {
  const Folder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const auto open = [&](const std::string& p) { return refusal([&] { IdxFile(p, 3); }); };
  expect_line(open(path("absent")), {"absent", "No such file"});
  expect_line(open(folder.text()), {folder.text()});
  expect_line(open(write(folder / "empty", {})), {"empty", "0 bytes", "16"});
  expect_line(open(write(folder / "short", idx(3, {1, 2}, {}))), {"12 bytes"});
  expect_line(open(write(folder / "labels", idx(1, {20}, counting(20)))), {"0x00000801", "0x00000803"});
  expect_line(open(write(folder / "floats", idx(3, {1, 1, 1}, {1}, 13))), {"0x00000d03"});
  expect_line(open(write(folder / "text", counting(40))), {"0x00010203"});
}

TEST(Idx, RefusesSizesThatDoNotMatchTheFile) {
  const Folder folder;
  const auto open = [&](const Bytes& bytes) { return refusal([&] { IdxFile(write(folder / "file", bytes), 3); }); };
  const auto payload = counting(60);
  expect_line(open(idx(3, {3, 4, 6}, payload)), {"3 x 4 x 6", "60", "76"});
  expect_line(open(idx(3, {3, 4, 4}, payload)), {"3 x 4 x 4"});
  expect_line(open(idx(3, {0xffffffff, 28, 28}, payload)), {"4294967295 x 28 x 28"});
  expect_line(open(idx(3, {0xffffffff, 0xffffffff, 0xffffffff}, payload)), {"4294967295"});
  // The product of these dimensions is 2^64, which wraps around to 0 in 64 bits.
  expect_line(open(idx(3, {0x80000000, 0x80000000, 4}, payload)), {"2147483648"});
  expect_line(open(gzip(idx(3, {0xffffffff, 28, 28}, payload))), {"4294967295"});
}

TEST(Idx, RefusesGzipFilesThatAreTruncatedOrTooLongOrDamaged) {
  const Folder folder;
  auto noise = counting(50'000);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 7919 >> 7);
  const auto packed = gzip(idx(3, {50, 20, 50}, noise));
  const auto read = [&](const Bytes& bytes) { return refusal([&] { read_all(write(folder / "packed", bytes), 3); }); };
  EXPECT_EQ(read(packed), "nothing was refused");
  expect_line(read(Bytes(packed.begin(), packed.begin() + std::ssize(packed) / 2)),
              {"packed", "50000", "unexpected end of file"});
  expect_line(read(Bytes(packed.begin(), packed.end() - 4)), {"packed"});
  auto damaged = packed;
  damaged[packed.size() - 6] ^= 0x55;  // a byte of the CRC-32 checksum at the end of the gzip file
  expect_line(read(damaged), {"packed", "incorrect data check"});
  expect_line(read(gzip(idx(3, {50, 20, 49}, noise))), {"packed", "49000"});
}

// Random bytes of the files are changed. Every damaged file must be read or refused with a message, without a crash.
TEST(Idx, FilesWithRandomDamageAreReadOrRefusedWithoutACrash) {
  const Folder folder;
  const auto whole = idx(3, {10, 20, 30}, counting(6000)), packed = gzip(whole);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    auto bytes = round % 2 ? packed : whole;
    for (int hits = 1 + round % 4; hits > 0; --hits)
      bytes[random() % (round % 3 ? bytes.size() : 20)] = static_cast<uint8_t>(random());
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    const auto path = write(folder / std::to_string(round), bytes);
    refused += refusal([&] { read_all(path, 3); }) != "nothing was refused";
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 1000);
}

void read_folder(const std::string& folder) {
  const auto files = find_mnist(folder);
  ImageSet::read("", files.train_images, files.train_labels);
  ImageSet::read("", files.test_images, files.test_labels);
}

// Returns the reason for which the data directory is refused. Expects the same reason from the early check of the
// directory as from reading its files.
std::string refusal_of(const std::string& folder) {
  const std::string read = refusal([&] { read_folder(folder); });
  EXPECT_EQ(refusal([&] { require_mnist(folder); }), read);
  return read;
}

TEST(DataDirectory, IsRefusedWhenLabelsOrImagesAreInvalidOrDifferInNumber) {
  const auto with = [](const std::string& name, const Bytes& bytes) {
    const Mnist mnist;
    write(mnist.folder / name, bytes);
    return refusal_of(mnist.folder.text());
  };
  const std::string labels = "train-labels-idx1-ubyte", images = "train-images-idx3-ubyte";
  expect_line(with(labels, idx(1, {19}, counting(19, 10))), {labels, "19 labels", "20 images", images});
  expect_line(with(labels, idx(1, {20}, counting(20))), {labels, "label 10", "0 to 9"});
  expect_line(with(images, idx(3, {20, 14, 56}, counting(20 * 784))), {images, "14 x 56", "28 x 28"});
  expect_line(with(images, idx(3, {20, 28, 28}, counting(19 * 784))), {images, "20 x 28 x 28"});
  expect_line(with("t10k-labels-idx1-ubyte", idx(3, {5, 28, 28}, counting(5 * 784))), {"t10k-labels", "0x00000803"});
}

TEST(DataDirectory, IsRefusedWhenItOrOneOfItsFilesIsMissing) {
  const Mnist mnist;
  fs::remove(mnist.folder / "t10k-images-idx3-ubyte");
  expect_line(refusal_of(mnist.folder.text()), {"--data", mnist.folder.text(), "t10k-images-idx3-ubyte"});
  expect_line(refusal_of((mnist.folder / "nowhere").string()), {"nowhere", "--data"});
  expect_line(refusal_of((mnist.folder / "t10k-labels-idx1-ubyte").string()),
              {"t10k-labels-idx1-ubyte", "directory", "--data"});
  fs::create_symlink("loop", mnist.folder / "loop");
  expect_line(refusal_of((mnist.folder / "loop").string()), {"loop", "Too many levels"});
  expect_line(refusal_of((mnist.folder / std::string(5000, 'x')).string()), {"File name too long"});
}

TEST(DataDirectory, GivesTheNumberOfTrainingSamplesInItsFiles) { EXPECT_EQ(require_mnist(Mnist().folder.text()), 20); }

TEST(DataDirectory, WithTrainAndTestSwappedIsRefused) {
  const Mnist mnist;
  for (const std::string name : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
    fs::rename(mnist.folder / ("train" + name), mnist.folder / "swap");
    fs::rename(mnist.folder / ("t10k" + name), mnist.folder / ("train" + name));
    fs::rename(mnist.folder / "swap", mnist.folder / ("t10k" + name));
  }
  expect_line(refusal([&] { require_mnist(mnist.folder.text()); }), {"t10k-images-idx3-ubyte", "20", "5"});
}

TEST(DataDirectory, IsRefusedWhenAGzipFileIsTruncated) {
  const Mnist mnist("-", true);
  EXPECT_EQ(refusal_of(mnist.folder.text()), "nothing was refused");
  auto packed = gzip(idx(3, {20, 28, 28}, counting(20 * image_bytes)));
  packed.resize(packed.size() / 2);
  write(mnist.folder / "train-images-idx3-ubyte.gz", packed);
  expect_line(refusal_of(mnist.folder.text()), {"train-images-idx3-ubyte.gz", "--data"});
}

void expect_all_converted(ConvertPixels convert) {
  for (const int64_t count : {0, 1, 7, 16, 33, 100, 255}) {
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(255 - i));
    std::vector<float> unit(static_cast<size_t>(count) + 1, -1), whole = unit;
    convert(bytes.data(), count, PixelRange::unit, unit.data());
    convert(bytes.data(), count, PixelRange::bytes, whole.data());
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(unit[static_cast<size_t>(i)], static_cast<float>(255 - i) / 255.0f);
      EXPECT_EQ(whole[static_cast<size_t>(i)], static_cast<float>(255 - i));
    }
    EXPECT_EQ(unit.back(), -1) << count;
    EXPECT_EQ(whole.back(), -1) << count;
  }
}

TEST(Pixels, InAnyNumberAreConvertedExactlyByEveryImplementation) {
  for (const ConvertPixels convert : pixel_converters()) expect_all_converted(convert);
}

TEST(GeneratedDigits, ContainEachDigitOncePerTenSamples) {
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

TEST(GeneratedDigits, DependOnlyOnSeedAndIndex) {
  const auto early = drawn(1, 77);
  for (int64_t i = 0; i < 100; ++i) drawn(1, i);
  EXPECT_EQ(drawn(1, 77), early);
  EXPECT_NE(drawn(1, 78), early);
  EXPECT_NE(drawn(2, 77), early);
}

TEST(GeneratedDigits, HaveBetween16And299BrightPixels) {
  for (int64_t i = 0; i < 200; ++i) {
    const auto pixels = drawn(1, i);
    const auto bright = std::ranges::count_if(pixels, [](uint8_t p) { return p > 100; });
    EXPECT_GT(bright, 15) << i;
    EXPECT_LT(bright, 300) << i;
  }
}

ImageSet counted(const std::string& shared, std::atomic<int>& made) {
  return ImageSet::made(shared, "rows", 100, [&made](int64_t row, std::span<uint8_t> pixels, uint8_t& label) {
    ++made;
    std::ranges::fill(pixels, static_cast<uint8_t>(row + 1));
    label = static_cast<uint8_t>(row % 10);
  });
}

TEST(SharedSamples, AreGeneratedOnlyWhenNeededAndOnceForAllProcesses) {
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

TEST(SharedSamples, AreGeneratedOnceByManyThreads) {
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

TEST(SharedSamples, AreGeneratedAgainIfTheProcessGeneratingThemDied) {
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

TEST(SharedSamples, AreRefusedIfTheirDirectoryDoesNotExist) {
  std::atomic<int> made = 0;
  expect_line(refusal([&] { counted("/nonexistent-dpbench", made); }), {"/nonexistent-dpbench/rows", "No such file"});
}

}  // namespace
}  // namespace dpbench
