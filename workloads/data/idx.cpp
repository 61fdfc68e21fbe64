#include "workloads/data/idx.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

// The magic number with which an IDX file of unsigned bytes begins, without its last byte, the number of dimensions.
constexpr uint32_t unsigned_bytes = 0x0800;
// Highest compression ratio of gzip's algorithm deflate, according to zlib's documentation.
constexpr int64_t max_gzip_ratio = 1032;
// Most bytes to read by one call of gzread(), which takes an unsigned length but returns an int.
constexpr int64_t max_read_bytes = 1 << 30;

gzFile handle(void* file) { return static_cast<gzFile>(file); }

uint32_t big_endian(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

std::string hex(uint32_t value) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

std::string text(const std::vector<int64_t>& sizes) {
  std::string out;
  for (const int64_t size : sizes) out += (out.empty() ? "" : " x ") + std::to_string(size);
  return out;
}

// Returns zlib's error message without its file descriptor prefix ("<fd:3>: "); an empty string if there is no error.
std::string gzip_error(void* file) {
  int error = Z_OK;
  const std::string message = gzerror(handle(file), &error);
  if (error == Z_OK) return "";
  const size_t name = message.starts_with("<fd:") ? message.find(">: ") : std::string::npos;
  return name == std::string::npos ? message : message.substr(name + 3);
}

}  // namespace

void IdxFile::Close::operator()(void* file) const { gzclose(handle(file)); }

void IdxFile::fail(const std::string& found, const std::string& expected) const {
  throw UsageError(path_ + ": " + found + ", expected " + expected +
                   "; fetch it again, or leave --data out for drawn digits");
}

IdxFile::IdxFile(const std::string& path, size_t dimensions) : path_(path) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for its writer
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(std::string("cannot be opened (") + std::strerror(errno) + ")", "a readable IDX file");
  struct stat status{};
  const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  file_.reset(regular ? gzdopen(fd, "rb") : nullptr);
  if (!file_) {
    close(fd);
    fail("is not a regular file", "an IDX file, plain or gzip");
  }
  gzbuffer(handle(file_.get()), 1 << 17);
  read_header(dimensions);
  check_size(status.st_size);
}

void IdxFile::read_header(size_t dimensions) {
  std::array<uint8_t, 16> header{};
  const auto bytes = static_cast<int64_t>(4 + 4 * dimensions);
  const uint32_t expected = unsigned_bytes + static_cast<uint32_t>(dimensions);
  const int64_t got = read_some(header.data(), std::min(bytes, static_cast<int64_t>(header.size())));
  // A header may be short because the gzip data are damaged. In that case the error reports the damage, not the length.
  if (got < bytes) require_sound();
  if (got < bytes) fail("holds " + std::to_string(got) + " bytes", "a header of " + std::to_string(bytes));
  const uint32_t magic = big_endian(header.data());
  if (magic != expected)
    fail("magic number " + hex(magic),
         hex(expected) + " (unsigned bytes, " + std::to_string(dimensions) + " dimensions)");
  bytes_ = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    sizes_.push_back(big_endian(header.data() + 4 + 4 * d));
    if (__builtin_mul_overflow(bytes_, sizes_.back(), &bytes_)) bytes_ = -1;
    if (bytes_ < 0) break;
  }
}

void IdxFile::check_size(int64_t file_bytes) {
  const auto header = static_cast<int64_t>(4 + 4 * sizes_.size());
  const bool plain = gzdirect(handle(file_.get())) != 0;
  const int64_t most = plain ? file_bytes - header : file_bytes * max_gzip_ratio;
  const std::string found = "header announces " + text(sizes_) + " bytes";
  if (bytes_ < 0 || bytes_ > most || (plain && bytes_ != most))
    fail(found, (plain ? "" : "at most ") + std::to_string(most) + " in a file of " + std::to_string(file_bytes));
}

int64_t IdxFile::read_some(void* out, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const auto want = static_cast<unsigned>(std::min(bytes - done, max_read_bytes));
    const int got = gzread(handle(file_.get()), static_cast<uint8_t*>(out) + done, want);
    if (got <= 0) break;
    done += got;
  }
  return done;
}

void IdxFile::read(std::span<uint8_t> out) {
  check(static_cast<int64_t>(out.size()) == bytes_, "an IDX file is read whole");
  require_end(read_some(out.data(), bytes_));
}

void IdxFile::skim() {
  if (gzdirect(handle(file_.get())) != 0) return;
  std::vector<uint8_t> piece(1 << 17);
  int64_t got = 0;
  for (int64_t more = 1; got < bytes_ && more > 0; got += more)
    more = read_some(piece.data(), std::min<int64_t>(bytes_ - got, std::ssize(piece)));
  require_end(got);
}

void IdxFile::require_end(int64_t got) {
  if (got < bytes_) {
    const std::string why = gzip_error(file_.get());
    fail("ends after " + std::to_string(got) + " bytes of data" + (why.empty() ? "" : " (" + why + ")"),
         std::to_string(bytes_) + " (" + text(sizes_) + ")");
  }
  uint8_t more = 0;
  if (read_some(&more, 1) != 0)
    fail("goes on after its data", std::to_string(bytes_) + " bytes (" + text(sizes_) + ")");
  require_sound();
}

void IdxFile::require_sound() const {
  if (const std::string why = gzip_error(file_.get()); !why.empty())
    fail("is damaged (" + why + ")", "a whole gzip file");
}

}  // namespace dpbench
