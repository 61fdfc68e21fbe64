#include "strategies/parts/same_lines.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

at::Tensor words_on(at::Device device, int64_t count) {
  return at::zeros({count}, at::TensorOptions().dtype(at::kLong).device(device));
}

// Returns rank 0's text on every rank. The text is broadcast as int64 tensors, because every backend supports them.
std::string of_rank0(c10d::ProcessGroup& group, const std::string& mine, at::Device device) {
  constexpr size_t word = sizeof(int64_t);
  std::vector<at::Tensor> box = {words_on(device, 1).fill_(static_cast<int64_t>(mine.size()))};
  group.broadcast(box)->wait();
  const auto bytes = static_cast<size_t>(box[0].item<int64_t>());
  at::Tensor text = words_on(at::kCPU, static_cast<int64_t>(bytes / word + 1));
  std::memcpy(text.mutable_data_ptr<int64_t>(), mine.data(), std::min(bytes, mine.size()));
  box = {text.to(device)};
  group.broadcast(box)->wait();
  const at::Tensor got = box[0].cpu();
  return {reinterpret_cast<const char*>(got.const_data_ptr<int64_t>()), bytes};
}

}  // namespace

std::optional<DifferentLine> different_line(c10d::ProcessGroup& group, const std::vector<std::string>& lines,
                                            at::Device device) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const std::string first = of_rank0(group, text, device);
  if (first == text) return std::nullopt;
  std::istringstream rest(first);
  std::string theirs;
  for (size_t i = 0; std::getline(rest, theirs) || i < lines.size(); ++i) {
    const std::string here = i < lines.size() ? lines[i] : "nothing more";
    if (here != theirs) return DifferentLine{here, theirs.empty() ? "nothing more" : theirs};
  }
  return std::nullopt;
}

}  // namespace dpbench
