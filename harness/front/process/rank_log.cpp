#include "harness/front/process/rank_log.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

constexpr uintmax_t longest_log = 64u << 20;
constexpr size_t max_tail_bytes_read = 64u << 10, max_tail_lines = 12, max_tail_length = 2000;
// Longest unfinished line, in bytes, that new_lines() holds back. A longer one is returned in pieces.
constexpr size_t longest_line = 64u << 10;

// True for a warning or info in LibTorch's log, such as "[W1123 18:44:50.063 reducer.cpp:1502] Warning: ..".
bool logged_by_libtorch(const std::string& line) {
  return line.size() > 2 && line[0] == '[' && (line[1] == 'W' || line[1] == 'I') && line[2] >= '0' && line[2] <= '9';
}

// True for a line of LibTorch's stack traces, such as "frame #3: c10::Error::Error(..)": dozens of them follow an
// error.
bool is_stack_frame(const std::string& line) { return line.starts_with("frame #"); }

}  // namespace

RankLog::RankLog(const fs::path& folder, int rank) : path_(folder / ("rank" + std::to_string(rank) + ".log")) {}

Fd RankLog::open() const {
  Fd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file && errno == ENOSPC) file = Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!file) throw UsageError("cannot write " + path_.string() + ": " + std::strerror(errno));
  return file;
}

bool RankLog::flooded() const {
  std::error_code failed;
  return fs::file_size(path_, failed) > longest_log && !failed;
}

std::vector<std::string> RankLog::new_lines(bool ended) {
  std::error_code failed;
  const uintmax_t size = fs::file_size(path_, failed);
  if (!failed && size > taken_) {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(taken_));
    std::string fresh(std::min(size - taken_, longest_log), '\0');
    file.read(fresh.data(), static_cast<std::streamsize>(fresh.size()));
    fresh.resize(static_cast<size_t>(file.gcount()));
    taken_ += fresh.size();
    unended_ += fresh;
  }
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = unended_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(unended_.substr(begin, end - begin));
  unended_.erase(0, begin);
  if (!unended_.empty() && (ended || unended_.size() > longest_line)) lines.push_back(std::exchange(unended_, ""));
  std::erase_if(lines, logged_by_libtorch);
  return lines;
}

std::string RankLog::tail() const {
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  const auto size = static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0));
  std::string text(std::min(size, max_tail_bytes_read), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::vector<std::string> lines = split(sanitised(text), '\n');
  std::erase_if(lines, is_stack_frame);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > max_tail_lines) lines.erase(lines.begin(), lines.end() - max_tail_lines);
  const std::string last = join(lines, "\n");
  return last.size() > max_tail_length ? sanitised(last.substr(last.size() - max_tail_length)) : last;
}

void RankLog::tidy() const {
  std::error_code ignored;
  const uintmax_t size = fs::file_size(path_, ignored);
  if (ignored) return;
  if (size == 0) fs::remove(path_, ignored);
  if (size > longest_log) fs::resize_file(path_, longest_log, ignored);
}

}  // namespace dpbench
