// The tokens on which the workload gpt trains.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace dpbench::gpt {

// Returns the built-in text, which is used without the flag --data: 54,590 ASCII characters.
std::string_view built_in_text();

// A sequence of token ids below a vocabulary size.
class Tokens {
 public:
  // path: a file of token ids. A .bin file holds them as uint16, a .safetensors file as its only tensor (of whole
  // numbers), and in any other file each byte is a token. If empty, the built-in text is used, one token per byte.
  // Throws UsageError if the file cannot be read or one of the first 2^20 tokens is not below `vocab`.
  Tokens(const std::string& path, int64_t vocab);

  bool are_bytes() const { return ids_.scalar_type() == at::kByte; }
  int64_t count() const { return ids_.numel(); }
  // Returns the tokens at these positions, as int64 in the positions' shape. Throws UsageError if a token is not below
  // the vocabulary size.
  at::Tensor at(const at::Tensor& positions) const;

 private:
  std::string path_;
  int64_t vocab_;
  at::Tensor ids_;
};

}  // namespace dpbench::gpt
