// The safetensors file format, byte by byte, and the refusal of every kind of invalid header.
#include "workloads/data/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "tests/support/idx_files.h"
#include "workloads/data/safetensors_file.h"

namespace dpbench {
namespace {

std::string read_back(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string with_prefix(const std::string& header, const std::string& data, std::optional<uint64_t> length = {}) {
  std::string text;
  const uint64_t stated = length.value_or(header.size());
  for (int i = 0; i < 8; ++i) text += static_cast<char>(stated >> (8 * i) & 0xff);
  return text + header + data;
}

std::string write_text(const fs::path& path, const std::string& text) {
  return write(path, Bytes(text.begin(), text.end()));
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string refused(const std::string& header, uint64_t data = 8) {
  return refusal([&] { parse_safetensors(header, data, "--resume 'f'"); });
}

TEST(Safetensors, FileIsWrittenInTheExactFormat) {
  const Folder folder;
  SafetensorsHeader header{.tensors = {{.name = "b", .dtype = "U8", .shape = {3}},
                                       {.name = "w", .dtype = "F32", .shape = {1, 2}},
                                       {.name = "a", .dtype = "F32", .shape = {}},
                                       {.name = "none", .dtype = "I64", .shape = {0, 4}}},
                           .metadata = {{"format", "pt"}}};
  place_safetensors(header);
  // Values of the three tensors: 1, then 2 and -3, then 1, 2, 3.
  const std::string a("\0\0\x80\x3f", 4), w("\0\0\0\x40\0\0\x40\xc0", 8), b("\x01\x02\x03");
  write_safetensors(folder / "x", header, {{}, bytes(a), bytes(w), bytes(b)});
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"none":{"dtype":"I64","shape":[0,4],"data_offsets":[0,0]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(read_back(folder / "x"), with_prefix(padded, a + w + b));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.text()), {}), 1) << "no temporary file is left";
}

TEST(Safetensors, TensorsAreReadByOffsetInAnyOrder) {
  const Folder folder;
  const std::string file =
      write_text(folder / "x",
                 with_prefix(" {"
                             R"("é":{"data_offsets":[4,8],"shape":[2,2],"dtype":"I8"},"one":{"dtype":"F32","shape":[],)"
                             R"("data_offsets":[0,4]},"__metadata__":{"step":"7"}}   )",
                             "\x01\x02\x03\x04\x05\x06\x07\x08"));
  expect_line(refusal([&] { SafetensorsFile(file, "--resume"); }), {"'{'"});
  write_text(file,
             with_prefix(R"({"é":{"data_offsets":[4,8],"shape":[2,2],"dtype":"I8"},"one":{"dtype":"F32","shape":[],)"
                         R"("data_offsets":[0,4]},"__metadata__":{"step":"7"}}   )",
                         "\x01\x02\x03\x04\x05\x06\x07\x08"));
  const SafetensorsFile stored(file, "--resume");
  ASSERT_EQ(stored.header().tensors.size(), 2u);
  EXPECT_EQ(stored.header().metadata.at("step"), "7");
  const StoredTensor* tensor = stored.header().find("é");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 2}));
  std::array<std::byte, 4> got{};
  stored.read(*tensor, got);
  EXPECT_EQ(std::to_integer<int>(got[0]), 5);
  EXPECT_EQ(std::to_integer<int>(got[3]), 8);
  EXPECT_EQ(stored.header().find("two"), nullptr);
}

TEST(Safetensors, InvalidHeadersAreRefused) {
  const auto one = [](const std::string& inside) { return R"({"w":{)" + inside + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_EQ(refused(one(good)), "nothing was refused");
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"[]", {"--resume 'f'", "'{'"}},
      {"{", {"--resume 'f'"}},
      {"{} {}", {"--resume 'f'"}},
      {one(good) + "x", {"--resume 'f'"}},
      {"{\"\xff\":{}}", {"--resume 'f'"}},
      {R"({"w":{)" + good + R"(},"w":{)" + good + "}}", {"'w'"}},
      {R"({"__metadata__":{},"__metadata__":{}})", {"'__metadata__'"}},
      {R"({"__metadata__":{"a":"1","a":"2"}})", {"'a'"}},
      {R"({"__metadata__":{"a":1}})", {"--resume 'f'"}},
      {R"({"__metadata__":{"a":{}}})", {"--resume 'f'"}},
      {R"({"__metadata__":["a"]})", {"--resume 'f'"}},
      {R"({"w":"F32"})", {"--resume 'f'"}},
      {R"({"w":null})", {"--resume 'f'"}},
      {R"({"w":true})", {"--resume 'f'"}},
      {one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), {"'dtype'", "'w'"}},
      {one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), {"'F33'", "'w'"}},
      {one(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), {"--resume 'f'"}},
      {one(R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])"), {"--resume 'f'"}},
      {one(R"("dtype":"F32","shape":"2","data_offsets":[0,8])"), {"'shape'"}},
      {one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), {"--resume 'f'"}},
      {one(R"("dtype":"F32","shape":[{}],"data_offsets":[0,8])"), {"--resume 'f'"}},
      {one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), {"'w'"}},
      {one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), {"64"}},
      {one(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])"), {"64"}},
      {one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"), {"63"}},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), {"1 data_offsets"}},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), {"3 data_offsets"}},
      {one(R"("shape":[2],"data_offsets":[0,8])"), {"dtype", "'w'"}},
      {one(R"("dtype":"F32","data_offsets":[0,8])"), {"shape"}},
      {one(R"("dtype":"F32","shape":[2])"), {"data_offsets"}},
      {one(good + R"(,"stride":[1])"), {"'stride'"}},
  };
  for (const auto& [header, parts] : cases) expect_line(refused(header), parts);
  std::string deep = "{\"w\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  expect_line(refused(deep), {"--resume 'f'"});
  std::string wide = "[0";
  for (int i = 0; i < 100; ++i) wide += ",0";
  expect_line(refused(one(R"("dtype":"F32","shape":)" + wide + R"(],"data_offsets":[0,8])")), {"--resume 'f'"});
  expect_line(refused(R"({")" + std::string(5000, 'n') + R"(":{}})"), {"dtype", "nnn...'"});
}

TEST(Safetensors, OffsetsWithGapsOrOverlapsAreRefused) {
  const auto entry = [](const std::string& name, int64_t size, const std::string& offsets) {
    return std::string(1, '"') + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(size) +
           R"(],"data_offsets":[)" + offsets + "]}";
  };
  const auto two = [&](const std::string& a, int64_t size_a, const std::string& b, int64_t size_b) {
    return refused("{" + entry("a", size_a, a) + "," + entry("b", size_b, b) + "}");
  };
  EXPECT_EQ(two("0,4", 4, "4,8", 4), "nothing was refused");
  EXPECT_EQ(two("4,8", 4, "0,4", 4), "nothing was refused");
  expect_line(two("0,5", 5, "4,8", 4), {"'b'", "overlap", "4 to 8"});
  expect_line(two("0,8", 8, "0,8", 8), {"overlap"});
  expect_line(two("0,3", 3, "4,8", 4), {"'b'"});
  expect_line(two("0,4", 4, "4,7", 3), {"1 byte"});
  expect_line(two("0,4", 4, "4,9", 5), {"'b'", "8 bytes"});
  expect_line(two("0,4", 4, "8,4", 4), {"'b'", "8", "4"});
  expect_line(two("0,4", 3, "4,8", 4), {"tensor 'a'", "3 bytes", "4"});
  expect_line(refused("{" + entry("a", 8, "0,18446744073709551615") + "}"), {"18446744073709551615"});
  // The number of elements, 2^63 + 2, is too large for a signed 64-bit integer.
  const std::string wraps = R"({"a":{"dtype":"F64","shape":[4611686018427387905,2],"data_offsets":[0,8]}})";
  expect_line(refused(wraps), {"2^63"});
  const std::string hidden = R"({"a":{"dtype":"U8","shape":[4611686018427387905,4,0],"data_offsets":[0,0]}})";
  expect_line(refused(hidden, 0), {"2^63"});
  EXPECT_EQ(refused("{}", 0), "nothing was refused");
}

TEST(Safetensors, AFileOfTheWrongLengthOrThatIsNoRegularFileIsRefused) {
  const Folder folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data(8, '\1');
  const std::string path = (folder / "x").string();
  const auto open = [&](const std::string& text) {
    write_text(path, text);
    return refusal([&] { SafetensorsFile(path, "--resume"); });
  };
  const std::string whole = with_prefix(header, data);
  EXPECT_EQ(open(whole), "nothing was refused");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(open(whole.substr(0, length)), "nothing was refused") << "cut to " << length;
  expect_line(open(""), {"--resume", path, "0 bytes"});
  expect_line(open(with_prefix(header, data, 1000)), {"1000 bytes"});
  expect_line(open(with_prefix(header, data, uint64_t{1} << 40)), {"1099511627776 bytes", "100 MiB"});
  expect_line(open(with_prefix(header, data, UINT64_MAX)), {"18446744073709551615 bytes", "100 MiB"});
  expect_line(open(whole + "x"), {"1 byte"});
  expect_line(refusal([&] { SafetensorsFile((folder / "absent").string(), "--resume"); }), {"absent", "No such file"});
  expect_line(refusal([&] { SafetensorsFile(folder.text(), "--resume"); }), {"--resume", folder.text()});
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  expect_line(refusal([&] { SafetensorsFile((folder / "fifo").string(), "--resume"); }), {"--resume", "fifo"});
}

// Random characters of the header are changed. Every damaged header must be parsed or refused with a UsageError.
TEST(Safetensors, RandomlyDamagedHeadersAreParsedOrRefusedWithAUsageError) {
  const std::string good = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\",:0123456789-.eE\\u _adtypeshapF32\xc3\xa9\0";
  int refusals = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 8);
      else if (random() % 2 == 0)
        text.insert(at, 1, alphabet[random() % alphabet.size()]);
      else
        text[at] = alphabet[random() % alphabet.size()];
      if (text.empty()) text = "{";
    }
    try {
      for (const auto& tensor : parse_safetensors(text, 9, "f").tensors) ASSERT_LE(tensor.end, 9u);
    } catch (const UsageError& error) {
      ++refusals;
      ASSERT_TRUE(std::string(error.what()).starts_with("f: "));
    }
  }
  EXPECT_GT(refusals, 15000);
}

TEST(Safetensors, FileIsReplacedWithDefaultPermissionsAndNoTemporaryFileIsLeft) {
  const Folder folder;
  const std::string path = write_text(folder / "x", "old content");
  SafetensorsHeader header{.tensors = {{.name = "w", .dtype = "U8", .shape = {1}}}, .metadata = {}};
  place_safetensors(header);
  require_writable(path, "--save");
  EXPECT_EQ(read_back(path), "old content");
  const std::string absent = (folder / "no" / "such").string();
  expect_line(refusal([&] { require_writable(absent, "--save"); }), {"--save", absent, "No such file"});
  EXPECT_THROW(write_safetensors(absent, header, {bytes("x")}), FileError);
  expect_line(refusal([&] { require_writable(folder.text(), "--save"); }), {"--save", folder.text()});
  EXPECT_THROW(write_safetensors(folder.text(), header, {bytes("x")}), FileError) << "a directory";
  EXPECT_FALSE(fs::exists(folder.text() + draft_mark + "XXXXXX"));
  write_safetensors(path, header, {bytes("x")});
  EXPECT_TRUE(read_back(path).ends_with("x"));
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.text()), {}), 1) << "no temporary file is left";
}

}  // namespace
}  // namespace dpbench
