#include "workloads/gpt/tokens.h"

#include <algorithm>
#include <filesystem>

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/data/tensor_file.h"

namespace dpbench::gpt {
namespace {

constexpr int64_t low16 = 0xffff;

// Maps a file of numbers of dtype `type` into memory as a tensor, without a copy.
at::Tensor mapped(const std::string& path, at::ScalarType type) {
  std::error_code error;
  const auto bytes = std::filesystem::is_regular_file(path) ? std::filesystem::file_size(path, error) : 0;
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  if (error || bytes == 0) throw UsageError("--data " + path + ": not a readable file, or empty");
  if (static_cast<int64_t>(bytes) % size != 0)
    throw UsageError("--data " + path + ": " + std::to_string(bytes) + " bytes are no whole number of uint16 tokens");
  try {
    return at::from_file(path, /*shared=*/false, static_cast<int64_t>(bytes) / size, at::TensorOptions(type));
  } catch (const c10::Error& reason) {
    throw UsageError("--data " + path + ": " + reason.what_without_backtrace());
  }
}

at::Tensor only_tensor(const std::string& path) {
  const TensorFile file = load_tensors(path, "--data");
  const bool fits = file.tensors.size() == 1 && at::isIntegralType(file.tensors[0].second.scalar_type(), false);
  if (!fits) throw UsageError("--data " + path + ": must hold one tensor, of whole numbers (token ids)");
  const at::Tensor ids = file.tensors[0].second.flatten();
  // LibTorch cannot select elements from uint16, uint32 and uint64 tensors, so they are converted to int64. An int16
  // tensor is converted too, because elsewhere in this class int16 stands for the uint16 tokens of a .bin file.
  const bool selectable = !c10::isBarebonesUnsignedType(ids.scalar_type()) && ids.scalar_type() != at::kShort;
  return selectable ? ids : ids.to(at::kLong);
}

at::Tensor read(const std::string& path) {
  const auto extension = std::filesystem::path(path).extension();
  if (path.empty()) {
    const auto text = built_in_text();
    return at::from_blob(const_cast<char*>(text.data()), {static_cast<int64_t>(text.size())}, at::kByte);
  }
  if (extension == ".safetensors") return only_tensor(path);
  return mapped(path, extension == ".bin" ? at::kShort : at::kByte);
}

at::Tensor widened(const at::Tensor& ids) {
  at::Tensor wide = ids.to(at::kLong);
  return ids.scalar_type() == at::kShort ? wide.bitwise_and_(low16) : wide;
}

}  // namespace

Tokens::Tokens(const std::string& path, int64_t vocab) : path_(path), vocab_(vocab), ids_(read(path)) {
  constexpr int64_t checked_at_once = int64_t{1} << 20;
  at(at::arange(std::min(count(), checked_at_once)));
}

at::Tensor Tokens::at(const at::Tensor& positions) const {
  const at::Tensor ids = widened(ids_.index_select(0, positions.flatten())).view(positions.sizes());
  if (ids.numel() > 0 && (ids.max().item<int64_t>() >= vocab_ || ids.min().item<int64_t>() < 0))
    throw UsageError((path_.empty() ? "the built-in text" : "--data " + path_) + ": token " +
                     std::to_string(ids.max().item<int64_t>()) + " is outside the vocabulary; --model needs vocab=" +
                     std::to_string(ids.max().item<int64_t>() + 1) + " or more, not " + std::to_string(vocab_));
  return ids;
}

}  // namespace dpbench::gpt
