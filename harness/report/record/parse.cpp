#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/report/record/protocol.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

std::string line_and_column(const std::string& text, size_t byte) {
  const size_t end = std::min(byte, text.size());
  size_t line = 1, column = 1;
  for (size_t i = 0; i + 1 < end; ++i) {
    ++column;
    if (text[i] == '\n') ++line, column = 1;
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// Receives the parser's events and builds the JSON document from them, so that a hostile document is rejected before it
// is complete.
class StrictReader : public nlohmann::json_sax<Json> {
 public:
  // Writes the parsed document to `root` and rejects documents beyond `limits`.
  StrictReader(const JsonLimits& limits, Json& root) : limits_(limits), root_(root) {}
  bool null() override { return add_scalar(nullptr); }
  bool boolean(bool value) override { return add_scalar(value); }
  bool number_integer(int64_t value) override { return add_scalar(value); }
  bool number_unsigned(uint64_t value) override { return add_scalar(value); }
  bool number_float(double value, const std::string&) override { return add_scalar(value); }
  bool string(std::string& value) override { return add_scalar(std::move(value)); }
  bool binary(Json::binary_t&) override { return refuse("holds binary data"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (open_.back().has(value)) return refuse("holds the key '" + value.substr(0, 64) + "' twice");
    if (open_.back().value->size() >= limits_.keys)
      return refuse("holds an object of more than " + std::to_string(limits_.keys) + " keys");
    key_ = std::move(value);
    return charge(3 * sizeof(std::string) / 2 + key_.size());
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    byte_ = byte;
    return refuse("is not valid JSON");
  }

  std::string refused_;
  size_t byte_ = 0;

 private:
  struct Level {
    Json* value;
    // Keys of a large object, to find duplicates; a small object is searched linearly, which is faster.
    std::unordered_set<std::string> keys;

    bool has(const std::string& key) {
      const auto& members = value->get_ref<const Json::object_t&>();
      if (members.size() < 32)
        return std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
      if (keys.empty())
        for (const auto& member : members) keys.insert(member.first);
      return !keys.insert(key).second;
    }
  };

  bool refuse(std::string why) {
    refused_ = std::move(why);
    return false;
  }
  Json* add(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    // Append without ordered_json's own insertion, which searches all keys and so takes quadratic time for a hostile
    // object.
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }
  // Estimates the memory of a JSON value: its own size, half of that for the spare capacity of the list that holds it,
  // and the heap block of a list, object or string.
  static size_t memory_of(const Json& value) {
    constexpr size_t own = 3 * sizeof(Json) / 2, block = 48;  // block: heap block of a list, object or string
    if (value.is_string()) return own + block + value.get_ref<const std::string&>().size();
    return value.is_structured() ? own + block : own;
  }
  bool add_scalar(Json value) {
    const size_t bytes = memory_of(value);
    add(std::move(value));
    return charge(bytes);
  }
  // Adds to the estimated memory of the document. Returns false, which stops the parser, once the limit is exceeded.
  bool charge(size_t bytes) {
    memory_ += bytes;
    return memory_ <= limits_.memory ||
           refuse("would take more than " + std::to_string(limits_.memory >> 20) + " MiB of memory");
  }
  bool open(Json value) {
    if (open_.size() == limits_.depth)
      return refuse("is nested deeper than " + std::to_string(limits_.depth) + " levels");
    const size_t bytes = memory_of(value);
    open_.push_back({add(std::move(value)), {}});
    return charge(bytes);
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Level> open_;
  std::string key_;
  size_t memory_ = 0;
  const JsonLimits& limits_;
  Json& root_;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& what, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw UsageError(what + " is larger than " + std::to_string(limits.bytes >> 20) + " MiB");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw UsageError(what + " is empty");
  auto root = std::make_unique<Json>();
  StrictReader reader(limits, *root);
  try {
    if (Json::sax_parse(text, &reader)) return std::move(*root);
  } catch (const std::bad_alloc&) {
    // Leak the partial document: memory is exhausted, and destroying a JSON document would allocate more.
    (void)root.release();
    throw;
  }
  const std::string where = reader.byte_ ? " (" + line_and_column(text, reader.byte_) + ")" : "";
  throw UsageError(what + " " + reader.refused_ + where);
}

}  // namespace dpbench
