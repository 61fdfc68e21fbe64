#include "workloads/data/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr const char *dtype_key = "dtype", *shape_key = "shape", *offsets_key = "data_offsets",
                     *metadata_key = "__metadata__";

constexpr size_t most_dimensions = 64;

std::string named(std::string_view name) {
  constexpr size_t longest = 60;
  return "'" + std::string(name.substr(0, longest)) + (name.size() > longest ? "..." : "") + "'";
}

// Returns the tensor's size in bytes. Returns nullopt if the product of the element size and all non-zero dimensions
// exceeds 63 bits (even if another dimension is zero).
std::optional<uint64_t> bytes_of(const StoredTensor& tensor) {
  int64_t bytes = static_cast<int64_t>(safetensors_width(tensor.dtype));
  bool empty = false;
  for (const int64_t size : tensor.shape) {
    empty |= size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

// Parses the JSON header as a stream, without building a document, so that a hostile header costs no more memory than
// its text.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse("holds a null"); }
  bool boolean(bool) override { return refuse("holds true or false"); }
  bool number_integer(int64_t) override { return refuse("holds a negative number" + place()); }
  bool number_float(double, const std::string&) override {
    return refuse("holds a number that is no 64-bit whole number" + place());
  }
  bool binary(nlohmann::json::binary_t&) override { return refuse("holds binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (numbers_ == nullptr) return refuse("holds a number where none belongs" + place());
    if (numbers_->size() == most_dimensions) return refuse("gives too many numbers" + place());
    if (numbers_ == &shape_ && value > static_cast<uint64_t>(INT64_MAX))
      return refuse("gives a size beyond 63 bits" + place());
    numbers_->push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (level_ != Level::entry) return refuse("holds a text where none belongs");
    if (in_metadata_) return found.metadata[key_] = std::move(value), true;
    if (key_ != dtype_key) return refuse("gives a text as " + named(key_) + place());
    if (safetensors_width(value) == 0) return refuse("gives the unknown dtype " + named(value) + place());
    current_.dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (numbers_ || level_ == Level::entry) return refuse("is nested deeper than the format" + place());
    level_ = level_ == Level::outside ? Level::names : Level::entry;
    keys_.clear();
    return true;
  }

  bool key(std::string& value) override {
    if (level_ == Level::names) return name(std::move(value));
    if (!keys_.insert(value).second) return refuse("holds the key " + named(value) + " twice" + place());
    if (!in_metadata_ && value != dtype_key && value != shape_key && value != offsets_key)
      return refuse("holds the unknown key " + named(value) + place());
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (level_ == Level::names) return true;
    if (in_metadata_) return leave();
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!keys_.contains(needed)) return refuse(std::string("lacks ") + needed + place());
    if (offsets_.size() != 2) return refuse("gives " + std::to_string(offsets_.size()) + " data_offsets" + place());
    current_.shape.assign(shape_.begin(), shape_.end());
    current_.begin = offsets_[0];
    current_.end = offsets_[1];
    found.tensors.push_back(std::move(current_));
    return leave();
  }

  bool start_array(size_t) override {
    if (level_ != Level::entry || in_metadata_ || numbers_ || key_ == dtype_key)
      return refuse("holds a list where none belongs" + place());
    numbers_ = key_ == shape_key ? &shape_ : &offsets_;
    return true;
  }
  bool end_array() override {
    numbers_ = nullptr;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("is not valid JSON");
  }

  SafetensorsHeader found;
  std::string refused;

 private:
  enum class Level { outside, names, entry };

  bool refuse(std::string why) {
    refused = std::move(why);
    return false;
  }
  std::string place() const {
    return level_ == Level::entry && !in_metadata_ ? " for tensor " + named(current_.name) : "";
  }

  bool leave() {
    level_ = Level::names;
    return true;
  }
  bool name(std::string value) {
    if (!names_.insert(value).second) return refuse("holds the name " + named(value) + " twice");
    in_metadata_ = value == metadata_key;
    current_ = {};
    current_.name = std::move(value);
    shape_.clear();
    offsets_.clear();
    return true;
  }

  Level level_ = Level::outside;
  bool in_metadata_ = false;
  std::string key_;
  StoredTensor current_;
  std::vector<uint64_t> shape_, offsets_, *numbers_ = nullptr;
  std::unordered_set<std::string> names_, keys_;
};

void refuse_wrong_places(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& what) {
  uint64_t next = 0;
  for (const StoredTensor& tensor : header.tensors) {
    const std::string who = what + ": tensor " + named(tensor.name);
    const std::string offsets = " (offsets " + std::to_string(tensor.begin) + " to " + std::to_string(tensor.end) + ")";
    if (tensor.end < tensor.begin) throw UsageError(who + " ends before it begins" + offsets);
    if (tensor.end > data_bytes)
      throw UsageError(who + " lies beyond the end of the file" + offsets + ": there are " +
                       std::to_string(data_bytes) + " bytes of data; it may be truncated");
    const auto bytes = bytes_of(tensor);
    if (!bytes || *bytes != tensor.end - tensor.begin)
      throw UsageError(who + " has a shape of " + (bytes ? std::to_string(*bytes) : "more than 2^63") +
                       " bytes and a place of " + std::to_string(tensor.end - tensor.begin));
    if (tensor.begin != next)
      throw UsageError(who + (tensor.begin < next ? " overlaps another one" : " leaves a hole before it") + offsets);
    next = tensor.end;
  }
  if (next != data_bytes)
    throw UsageError(what + ": " + std::to_string(data_bytes - next) + " bytes after the last tensor belong to none");
}

}  // namespace

const StoredTensor* SafetensorsHeader::find(const std::string& name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

uint64_t safetensors_width(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 15> widths = {{{"F64", 8},
                                                                                    {"F32", 4},
                                                                                    {"F16", 2},
                                                                                    {"BF16", 2},
                                                                                    {"I64", 8},
                                                                                    {"I32", 4},
                                                                                    {"I16", 2},
                                                                                    {"I8", 1},
                                                                                    {"U64", 8},
                                                                                    {"U32", 4},
                                                                                    {"U16", 2},
                                                                                    {"U8", 1},
                                                                                    {"BOOL", 1},
                                                                                    {"F8_E4M3", 1},
                                                                                    {"F8_E5M2", 1}}};
  for (const auto& [name, width] : widths)
    if (name == dtype) return width;
  return 0;
}

SafetensorsHeader parse_safetensors(std::string_view header, uint64_t data_bytes, const std::string& what) {
  if (!header.starts_with('{')) throw UsageError(what + ": the header does not begin with '{': not a safetensors file");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader))
    throw UsageError(what + ": the header " + reader.refused);
  auto& tensors = reader.found.tensors;
  // Sorts the tensors by their offset in the file. A tensor without bytes comes before another one at the same offset.
  std::stable_sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  refuse_wrong_places(reader.found, data_bytes, what);
  return std::move(reader.found);
}

void place_safetensors(SafetensorsHeader& header) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const auto width_a = safetensors_width(a.dtype), width_b = safetensors_width(b.dtype);
    return width_a != width_b ? width_a > width_b : a.name < b.name;
  });
  uint64_t next = 0;
  for (StoredTensor& tensor : header.tensors) {
    const auto bytes = bytes_of(tensor);
    check(bytes && safetensors_width(tensor.dtype) > 0, "tensor " + named(tensor.name) + " cannot be stored");
    tensor.begin = next;
    tensor.end = next += *bytes;
  }
}

std::string format_safetensors(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const StoredTensor& tensor : header.tensors) {
    check(!json.contains(tensor.name), "two tensors are called " + named(tensor.name));
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix(safetensors_prefix, '\0');
  for (size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace dpbench
