#include "workloads/gpt/shape.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench::gpt {
namespace {

// The predefined shapes of models. The sizes of `tiny` are divisible by few world sizes, so that checks cover uneven
// pieces.
const std::vector<std::pair<std::string, Shape>>& shapes() {
  static const std::vector<std::pair<std::string, Shape>> all = {
      {"tiny",
       {.layers = 2,
        .hidden = 18,
        .heads = 3,
        .mlp = 70,
        .seq = 11,
        .vocab = 257,
        .dropout = 0.1,
        .padding = true,
        .warmup = 2,
        .decay = 10}},
      {"tiny-llama",
       {.style = Style::llama,
        .layers = 2,
        .hidden = 36,
        .heads = 6,
        .kv_heads = 2,
        .mlp = 50,
        .seq = 13,
        .vocab = 257,
        .tied = false,
        .padding = true}},
      {"tiny-experts",
       {.style = Style::llama,
        .layers = 2,
        .hidden = 18,
        .heads = 3,
        .mlp = 20,
        .seq = 11,
        .vocab = 257,
        .experts = 5,
        .padding = true}},
      {"small", {}},
      {"gpt2-124m",
       {.layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .learning_rate = 6e-4, .warmup = 100}},
      {"llama-1b",
       {.style = Style::llama,
        .layers = 16,
        .hidden = 2048,
        .heads = 32,
        .kv_heads = 8,
        .mlp = 8192,
        .seq = 2048,
        .vocab = 128256,
        .learning_rate = 3e-4,
        .warmup = 100}}};
  return all;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError("--model " + text + ": " + why);
}

using Set = std::function<bool(Shape&, const std::string& value)>;

bool parse_whole(const std::string& value, int64_t least, int64_t& to) {
  constexpr int64_t most = 1 << 24;
  const auto number = parse_number<int64_t>(value);
  if (!number || *number < least || *number > most) return false;
  to = *number;
  return true;
}

bool parse_real(const std::string& value, double below, double& to) {
  const auto number = parse_number<double>(value);
  if (!number || !(*number >= 0 && *number < below)) return false;
  to = *number;
  return true;
}

Set whole(int64_t Shape::* member, int64_t least = 1) {
  return [=](Shape& shape, const std::string& value) { return parse_whole(value, least, shape.*member); };
}

Set real(double Shape::* member, double below) {
  return [=](Shape& shape, const std::string& value) { return parse_real(value, below, shape.*member); };
}

template <class Value>
Set one_of(Value Shape::* member, const std::map<std::string, Value>& names) {
  return [=](Shape& shape, const std::string& value) {
    const auto found = names.find(value);
    if (found == names.end()) return false;
    shape.*member = found->second;
    return true;
  };
}

struct Key {
  std::string name, values;  // values: the allowed values of this size, as text for error messages
  Set set;
};

const std::vector<Key>& keys() {
  const std::string counts = "a whole number from 1", counts_or_0 = "a whole number from 0";
  static const std::vector<Key> all = {
      {"style", "gpt2 or llama", one_of(&Shape::style, {{"gpt2", Style::gpt2}, {"llama", Style::llama}})},
      {"layers", counts, whole(&Shape::layers)},
      {"hidden", counts, whole(&Shape::hidden)},
      {"heads", counts, whole(&Shape::heads)},
      {"kv_heads", counts, whole(&Shape::kv_heads)},
      {"mlp", counts, whole(&Shape::mlp)},
      {"seq", counts, whole(&Shape::seq)},
      {"vocab", counts, whole(&Shape::vocab)},
      {"experts", counts_or_0, whole(&Shape::experts, 0)},
      {"top_k", counts, whole(&Shape::top_k)},
      {"capacity", "a number from 0", real(&Shape::capacity, std::numeric_limits<double>::infinity())},
      {"balance", "a number from 0", real(&Shape::balance, std::numeric_limits<double>::infinity())},
      {"tied", "on or off", one_of(&Shape::tied, {{"on", true}, {"off", false}})},
      {"dropout", "a number from 0 to less than 1", real(&Shape::dropout, 1)},
      {"padding", "on or off", one_of(&Shape::padding, {{"on", true}, {"off", false}})},
      {"optimizer", "adamw, momentum or sgd",
       one_of(&Shape::optimizer, {{"adamw", Update::adamw}, {"momentum", Update::momentum}, {"sgd", Update::sgd}})},
      {"lr", "a number from 0", real(&Shape::learning_rate, std::numeric_limits<double>::infinity())},
      {"warmup", counts_or_0, whole(&Shape::warmup, 0)},
      {"decay", counts_or_0, whole(&Shape::decay, 0)}};
  return all;
}

std::string joined_names() {
  std::string names;
  for (const auto& name : shape_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) c == ',' ? parts.emplace_back() : parts.back() += c;
  return parts;
}

Shape named(const std::string& text, const std::string& name) {
  for (const auto& [known, shape] : shapes())
    if (known == name) return shape;
  refuse(text, "there is no model '" + name + "'. Models: " + joined_names() + "; or sizes such as layers=8,hidden=64");
}

void set_value(const std::string& text, const std::string& part, Shape& shape) {
  const auto at = part.find('=');
  const std::string name = part.substr(0, at), value = part.substr(at + 1);
  const auto key = std::ranges::find(keys(), name, &Key::name);
  if (key == keys().end()) refuse(text, "there is no size '" + name + "'. Sizes: " + size_names());
  if (!key->set(shape, value)) refuse(text, name + " must be " + key->values);
}

void settle(const std::string& text, Shape& shape) {
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (shape.mlp == 0) shape.mlp = shape.style == Style::gpt2 ? 4 * shape.hidden : (8 * shape.hidden + 2) / 3;
  if (shape.hidden % shape.heads != 0)
    refuse(text,
           "hidden " + std::to_string(shape.hidden) + " is not a multiple of heads " + std::to_string(shape.heads));
  if (shape.heads % shape.kv_heads != 0)
    refuse(text,
           "heads " + std::to_string(shape.heads) + " is not a multiple of kv_heads " + std::to_string(shape.kv_heads));
  if (shape.experts > 0 && shape.top_k > shape.experts)
    refuse(text,
           "top_k " + std::to_string(shape.top_k) + " is more than the experts, " + std::to_string(shape.experts));
  if (shape.style == Style::llama && shape.head_size() % 2 != 0)
    refuse(text, "rotary positions need an even head size; hidden / heads is " + std::to_string(shape.head_size()));
}

}  // namespace

int64_t Shape::multiplied_parameters() const {
  const int64_t attention = 2 * hidden * hidden + 2 * hidden * head_size() * kv_heads;
  const int64_t matrices = style == Style::gpt2 ? 2 : 3;
  const int64_t mlps = experts > 0 ? top_k : 1;
  return layers * (attention + experts * hidden + mlps * matrices * hidden * mlp) + hidden * vocab;
}

double Shape::flop_per_row() const {
  const auto tokens = static_cast<double>(seq);
  return 6 * static_cast<double>(multiplied_parameters()) * tokens +
         12 * static_cast<double>(layers) * static_cast<double>(hidden) * tokens * tokens;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes()) names.push_back(name);
  return names;
}

std::string size_names() {
  std::string names;
  for (const Key& key : keys()) names += (names.empty() ? "" : ", ") + key.name;
  return names;
}

std::vector<std::vector<std::string>> drawn_sizes() {
  return {{"style=gpt2", "style=llama"},
          {"layers=1", "layers=2", "layers=3", "layers=4"},
          {"heads=2,hidden=12", "heads=3,hidden=18", "heads=4,kv_heads=1,hidden=24", "heads=4,kv_heads=2,hidden=32",
           "heads=5,hidden=30", "heads=6,kv_heads=3,hidden=36"},
          {"mlp=16", "mlp=37", "mlp=70"},
          {"seq=4", "seq=7", "seq=13"},
          {"vocab=128", "vocab=257"},
          {"tied=off", "tied=on"},
          {"dropout=0", "dropout=0.2"},
          {"padding=off", "padding=on"},
          {"experts=0", "experts=3,top_k=1", "experts=5,top_k=2", "experts=4,top_k=2,capacity=1.25"}};
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  bool first = true;
  for (const std::string& part : split_at_commas(text)) {
    if (part.find('=') != std::string::npos)
      set_value(text, part, shape);
    else if (first)
      shape = named(text, part);
    else
      refuse(text, "'" + part + "' must be the first part, or a size such as layers=8");
    first = false;
  }
  settle(text, shape);
  return shape;
}

}  // namespace dpbench::gpt
