#include "workloads/data/safetensors_parts.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Sizes = std::vector<int64_t>;

constexpr const char *index_file = "index.json", *format = "dpbench parts 1", *ending = ".safetensors";
// Keys in the metadata of a save's files. PyTorch reads the offsets of tensor parts under DCP_SHARDING_INFO.
constexpr const char *save_key = "save", *sizes_key = "whole_sizes", *offsets_key = "DCP_SHARDING_INFO",
                     *offsets_of_tensor = "saved_offsets";
constexpr int most_files = 65536;

std::string file_name(const Save& save, int number) {
  char text[80];
  std::snprintf(text, sizeof text, "-%05d-of-%05d", number + 1, save.files);
  return save.mark + text + ending;
}

// Returns true if the name has the form of a file of a save, such as 0123456789abcdef-00001-of-00004.safetensors.
bool is_file_of_a_save(const std::string& name) {
  static const std::regex form("[0-9a-f]{16}-[0-9]{5}-of-[0-9]{5}\\.safetensors");
  return std::regex_match(name, form);
}

// Returns the name without the ending of a temporary file, if it has this ending. Killed ranks leave temporary files
// behind.
std::string without_draft_mark(const std::string& name) { return name.substr(0, name.rfind(draft_mark)); }

// Returns the number of elements of a tensor of these sizes; nullopt if a size is negative or the number exceeds 63
// bits.
std::optional<int64_t> elements(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

// A part of a tensor that one file holds.
struct Stored {
  const SafetensorsFile* file;
  const StoredTensor* tensor;
  Sizes first;
};

bool overlap(const Stored& a, const Stored& b) {
  for (size_t i = 0; i < a.first.size(); ++i)
    if (a.first[i] >= b.first[i] + b.tensor->shape[i] || b.first[i] >= a.first[i] + a.tensor->shape[i]) return false;
  return *elements(a.tensor->shape) > 0 && *elements(b.tensor->shape) > 0;
}

// A tensor whose parts lie in several files. The parts are in the order of the files.
struct Whole {
  Sizes sizes;
  std::string dtype;
  std::vector<Stored> parts;
};

// Reads a directory of tensors. Error messages begin with `what` and the directory's name.
class Directory {
 public:
  Directory(std::string path, const std::string& what)
      : path_(std::move(path)), flag_(what), what_(what + " '" + path_ + "'") {}

  TensorFile load() {
    const Json index = parsed_index();
    TensorFile loaded;
    try {
      if (index.at("format") != format)
        refuse("is not a checkpoint of this version: its index says " + index.at("format").dump());
      save_.mark = index.at("save").get<std::string>();
      save_.files = index.at("files").get<int>();
      loaded.metadata = index.at("metadata").get<std::map<std::string, std::string>>();
    } catch (const Json::exception&) {
      refuse(std::string("has a damaged ") + index_file);
    }
    if (save_.files < 1 || save_.files > most_files) refuse("names " + std::to_string(save_.files) + " files");
    if (!is_file_of_a_save(file_name(save_, 0))) refuse("has an index with an invalid save");
    for (int number = 0; number < save_.files; ++number) add_file(file_name(save_, number));
    for (const auto& [name, whole] : wholes_) require_complete(name, whole);
    for (const auto& [name, whole] : wholes_) loaded.tensors.emplace_back(name, read(whole));
    return loaded;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw UsageError(what_ + " " + why); }

  Json parsed_index() const {
    std::ifstream file(fs::path(path_) / index_file);
    if (!file) refuse(std::string("has no ") + index_file + ": it is no checkpoint, or its first save did not end");
    const Json index = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!index.is_object()) refuse(std::string("has a damaged ") + index_file);
    return index;
  }

  void add_file(const std::string& name) {
    const std::string path = fs::path(path_) / name;
    if (!fs::exists(path)) refuse("lacks the file " + name + ", which its index names");
    files_.push_back(std::make_unique<SafetensorsFile>(path, flag_));
    const SafetensorsFile& file = *files_.back();
    const auto& metadata = file.header().metadata;
    const auto mark = metadata.find(save_key);
    if (mark == metadata.end() || mark->second != save_.mark) refuse("has the file " + name + " of another save");
    try {
      const Json offsets = Json::parse(metadata.at(offsets_key)), sizes = Json::parse(metadata.at(sizes_key));
      for (const StoredTensor& tensor : file.header().tensors)
        add_part(name, tensor.name, sizes.at(tensor.name).get<Sizes>(),
                 {&file, &tensor, offsets.at(tensor.name).at(offsets_of_tensor).get<Sizes>()});
    } catch (const Json::exception&) {
      refuse("has the file " + name + " without the places of its tensors");
    } catch (const std::out_of_range&) {
      refuse("has the file " + name + " without the places of its tensors");
    }
  }

  void add_part(const std::string& file, const std::string& name, const Sizes& sizes, const Stored& part) {
    const std::string who = "has in the file " + file + " a part of '" + name + "'";
    if (!elements(sizes)) refuse(who + " of a size that is out of range");
    const auto [found, is_new] = wholes_.try_emplace(name, Whole{sizes, part.tensor->dtype, {}});
    Whole& whole = found->second;
    if (!is_new && (whole.sizes != sizes || whole.dtype != part.tensor->dtype))
      refuse(who + " with another shape or dtype than in the files before it");
    bool inside = part.first.size() == sizes.size() && part.tensor->shape.size() == sizes.size();
    for (size_t i = 0; inside && i < sizes.size(); ++i)
      inside = part.first[i] >= 0 && part.first[i] <= sizes[i] && part.tensor->shape[i] <= sizes[i] - part.first[i];
    if (!inside) refuse(who + " that lies outside of the tensor");
    for (const Stored& other : whole.parts)
      if (overlap(other, part)) refuse(who + " that overlaps another one");
    whole.parts.push_back(part);
  }

  void require_complete(const std::string& name, const Whole& whole) const {
    int64_t stored = 0;
    for (const Stored& part : whole.parts) stored += *elements(part.tensor->shape);
    if (const int64_t all = *elements(whole.sizes); stored != all)
      refuse("has " + std::to_string(stored) + " of the " + std::to_string(all) + " elements of '" + name + "'");
  }

  static at::Tensor read(const Whole& whole) {
    at::Tensor tensor = at::empty(whole.sizes, at::TensorOptions(type_of_stored(whole.dtype)));
    for (const Stored& part : whole.parts) {
      at::Tensor place = tensor;
      for (size_t i = 0; i < part.first.size(); ++i)
        place = place.narrow(static_cast<int64_t>(i), part.first[i], part.tensor->shape[i]);
      at::Tensor values = at::empty(part.tensor->shape, tensor.options());
      part.file->read(*part.tensor, bytes_of(values));
      place.copy_(values);
    }
    return tensor;
  }

  std::string path_, flag_, what_;
  Save save_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Whole> wholes_;
};

}  // namespace

void require_parts_directory(const std::string& directory, const std::string& what) {
  std::error_code failed;
  fs::create_directories(directory, failed);  // an error needs no handling here, because require_writable() then throws
  const fs::path index = fs::path(directory) / index_file;
  require_writable(index, what);
  if (!fs::exists(index)) return;
  const Json found = Json::parse(std::ifstream(index), nullptr, /*allow_exceptions=*/false);
  if (!found.is_object() || found.value("format", Json()) != format)
    throw UsageError(what + " '" + directory + "' has an " + index_file +
                     " of another program, which would be overwritten. Use another directory");
}

void write_parts(const std::string& directory, const Save& save, int number, const std::vector<TensorPart>& parts) {
  TensorFile file;
  Json offsets = Json::object(), sizes = Json::object();
  for (const TensorPart& part : parts) {
    if (!part.values.defined()) continue;
    file.tensors.emplace_back(part.name, part.values);
    offsets[part.name] = {{offsets_of_tensor, part.first}};
    sizes[part.name] = part.sizes;
  }
  file.metadata = {{save_key, save.mark}, {offsets_key, offsets.dump()}, {sizes_key, sizes.dump()}, {"format", "pt"}};
  std::error_code failed;
  fs::create_directories(directory, failed);  // an error needs no handling here, because save_tensors() then throws
  save_tensors(fs::path(directory) / file_name(save, number), file);
}

void commit_parts(const std::string& directory, const Save& save, const std::map<std::string, std::string>& metadata) {
  for (int number = 0; number < save.files; ++number)
    if (const std::string name = file_name(save, number); !fs::exists(fs::path(directory) / name))
      throw FileError("cannot write " + directory + ": the file " + name +
                      " of another rank is not there. All hosts need the same directory");
  const std::string text =
      Json{{"format", format}, {"save", save.mark}, {"files", save.files}, {"metadata", metadata}}.dump(1) + "\n";
  write_file(fs::path(directory) / index_file, {std::as_bytes(std::span(text))});
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory, failed))
    if (const std::string name = without_draft_mark(entry.path().filename());
        is_file_of_a_save(name) && !name.starts_with(save.mark))
      fs::remove(entry.path(), failed);
}

TensorFile load_parts(const std::string& directory, const std::string& what) {
  return Directory(directory, what).load();
}

}  // namespace dpbench
