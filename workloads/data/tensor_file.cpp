#include "workloads/data/tensor_file.h"

#include <array>
#include <span>
#include <stdexcept>

#include <ATen/ATen.h>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 15> stored_types = {{{"F64", at::kDouble},
                                                                                       {"F32", at::kFloat},
                                                                                       {"F16", at::kHalf},
                                                                                       {"BF16", at::kBFloat16},
                                                                                       {"I64", at::kLong},
                                                                                       {"I32", at::kInt},
                                                                                       {"I16", at::kShort},
                                                                                       {"I8", at::kChar},
                                                                                       {"U64", at::kUInt64},
                                                                                       {"U32", at::kUInt32},
                                                                                       {"U16", at::kUInt16},
                                                                                       {"U8", at::kByte},
                                                                                       {"BOOL", at::kBool},
                                                                                       {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                                       {"F8_E5M2", at::kFloat8_e5m2}}};

std::string stored_name(at::ScalarType type) {
  for (const auto& [name, known] : stored_types)
    if (known == type) return std::string(name);
  throw std::runtime_error(std::string("safetensors has no dtype for ") + at::toString(type));
}

}  // namespace

at::ScalarType type_of_stored(const std::string& name) {
  for (const auto& [known, type] : stored_types)
    if (known == name) return type;
  throw std::logic_error("the header parser accepted an unknown dtype: " + name);
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

at::Tensor TensorFile::find(const std::string& name) const {
  for (const auto& [known, tensor] : tensors)
    if (known == name) return tensor;
  return {};
}

void save_tensors(const std::string& path, const TensorFile& file) {
  SafetensorsHeader header{.tensors = {}, .metadata = file.metadata};
  std::map<std::string, at::Tensor> plain;
  for (const auto& [name, tensor] : file.tensors) {
    if (!tensor.defined()) continue;
    plain[name] = tensor.detach().to(at::kCPU).contiguous();
    header.tensors.push_back({.name = name, .dtype = stored_name(tensor.scalar_type()), .shape = tensor.sizes().vec()});
  }
  place_safetensors(header);
  std::vector<std::span<const std::byte>> bytes;
  for (const StoredTensor& tensor : header.tensors) bytes.push_back(bytes_of(plain.at(tensor.name)));
  write_safetensors(path, header, bytes);
}

TensorFile load_tensors(const std::string& path, const std::string& what) {
  const SafetensorsFile stored(path, what);
  TensorFile file{.tensors = {}, .metadata = stored.header().metadata};
  for (const StoredTensor& tensor : stored.header().tensors) {
    at::Tensor loaded = at::empty(tensor.shape, at::TensorOptions(type_of_stored(tensor.dtype)));
    stored.read(tensor, bytes_of(loaded));
    file.tensors.emplace_back(tensor.name, std::move(loaded));
  }
  return file;
}

}  // namespace dpbench
