#include "workloads/data/drawn_digits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "workloads/base/hash.h"

namespace dpbench {
namespace {

// A point of a digit's pen strokes, in a 100 x 100 box with y downwards.
struct GlyphPoint {
  int8_t x, y;
  bool lift = false;  // true if the pen is lifted before this point, so that a new stroke starts here
};

using Strokes = std::vector<GlyphPoint>;

// clang-format off
const std::array<std::array<Strokes, 2>, 10> glyphs{{
    {Strokes{{50, 0, true}, {20, 14}, {8, 50}, {20, 86}, {50, 100}, {80, 86}, {92, 50}, {80, 14}, {50, 0}},
     Strokes{{62, 2, true}, {30, 12}, {16, 48}, {24, 84}, {46, 98}, {74, 84}, {84, 46}, {74, 12}, {50, 6}}},
    {Strokes{{30, 20, true}, {55, 0}, {55, 100}},
     Strokes{{52, 0, true}, {50, 100}, {28, 100, true}, {74, 100}}},
    {Strokes{{12, 24, true}, {26, 5}, {52, 0}, {80, 10}, {84, 34}, {62, 58}, {10, 100}, {92, 98}},
     Strokes{{16, 16, true}, {44, 0}, {78, 8}, {80, 36}, {46, 72}, {20, 94}, {16, 82}, {34, 80}, {60, 96}, {90, 92}}},
    {Strokes{{14, 12, true}, {46, 0}, {80, 10}, {80, 36}, {46, 48}, {84, 62}, {86, 86}, {50, 100}, {12, 88}},
     Strokes{{14, 2, true}, {84, 2}, {44, 42}, {78, 52}, {86, 78}, {56, 100}, {14, 90}}},
    {Strokes{{62, 0, true}, {8, 66}, {94, 66}, {68, 30, true}, {68, 100}},
     Strokes{{24, 2, true}, {16, 52}, {80, 54}, {78, 4, true}, {74, 100}}},
    {Strokes{{86, 2, true}, {24, 2}, {18, 46}, {54, 38}, {86, 58}, {82, 88}, {48, 100}, {12, 88}},
     Strokes{{26, 8, true}, {22, 44}, {62, 44}, {84, 70}, {60, 98}, {14, 94}, {24, 6, true}, {82, 2}}},
    {Strokes{{78, 6, true}, {48, 2}, {20, 34}, {12, 70}, {32, 98}, {68, 98}, {86, 74}, {64, 52}, {20, 62}},
     Strokes{{62, 0, true}, {28, 38}, {16, 76}, {44, 100}, {76, 86}, {70, 60}, {38, 58}, {20, 78}}},
    {Strokes{{10, 2, true}, {90, 2}, {60, 48}, {42, 100}},
     Strokes{{12, 12, true}, {14, 2}, {86, 4}, {40, 100}, {34, 50, true}, {80, 50}}},
    {Strokes{{50, 48, true}, {20, 32}, {24, 8}, {50, 0}, {78, 10}, {78, 32}, {50, 48}, {14, 70}, {22, 94}, {50, 100},
             {80, 94}, {86, 70}, {50, 48}},
     Strokes{{78, 12, true}, {46, 0}, {22, 18}, {46, 44}, {80, 70}, {66, 98}, {32, 98}, {18, 74}, {52, 46}, {82, 20}}},
    {Strokes{{82, 30, true}, {64, 48}, {30, 48}, {14, 26}, {34, 2}, {68, 4}, {82, 30}, {78, 70}, {56, 100}},
     Strokes{{78, 14, true}, {46, 0}, {22, 22}, {36, 46}, {66, 42}, {80, 10}, {76, 100}}},
}};
// clang-format on

// Returns the pen strokes of a digit in one of its two variants.
std::span<const GlyphPoint> glyph(int digit, int variant) { return glyphs[digit][variant]; }

constexpr int padded_side = 32;  // length of a row of a drawing in pixels, padded to a multiple of the vector width
using Drawing = std::array<std::array<float, padded_side>, image_side>;

struct Point {
  float x, y;
};

class Random {
 public:
  explicit Random(uint64_t key) : key_(key) {}
  uint64_t bits() { return mix64(key_ + ++count_); }
  // Returns a uniformly distributed random number in [low, high).
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 40) * (1.0f / (1 << 24));
  }

 private:
  uint64_t key_, count_ = 0;
};

// The random handwriting of one sample: maps points of the 100 x 100 box to pixels.
struct Hand {
  Point scale, shift;
  // turn: an angle in radians, which is so small that sine and cosine can be computed by short series.
  float slant, turn, wobble;

  explicit Hand(Random& random)
      : scale{random.between(0.10f, 0.15f), random.between(0.16f, 0.21f)},
        shift{random.between(-2.5f, 2.5f), random.between(-2.5f, 2.5f)},
        slant(random.between(-0.35f, 0.35f)),
        turn(random.between(-0.22f, 0.22f)),
        wobble(random.between(1, 4)) {}

  Point place(const GlyphPoint& p, Random& random) const {
    const float u = (static_cast<float>(p.x) - 50 + random.between(-wobble, wobble)) * scale.x;
    const float v = (static_cast<float>(p.y) - 50 + random.between(-wobble, wobble)) * scale.y;
    const float x = u - slant * v, cosine = 1 - turn * turn / 2;
    const float middle = (image_side - 1) / 2.0f;
    return {middle + shift.x + cosine * x - turn * v, middle + shift.y + turn * x + cosine * v};
  }
};

// Returns the pixel range [first, last) that a line from a to b covers along one axis, clamped to `count` pixels.
std::pair<int, int> reached(float a, float b, float reach, int count) {
  const int first = static_cast<int>(std::min(a, b) - reach), last = static_cast<int>(std::max(a, b) + reach) + 1;
  return {std::clamp(first, 0, count), std::clamp(last, 0, count)};
}

// Draws a line with soft edges: full ink up to one pixel inside the edge, then fading to nothing at the edge.
void draw_line(Drawing& drawing, Point from, Point to, float half_width) {
  const float reach = half_width + 0.5f, inner = reach - 1;
  const float fall = 1 / (reach * reach - inner * inner);
  const float dx = to.x - from.x, dy = to.y - from.y;
  const float per_length = 1 / std::max(dx * dx + dy * dy, 1e-6f);
  const auto [top, bottom] = reached(from.y, to.y, reach, image_side);
  const auto [left, right] = reached(from.x, to.x, reach, image_side);
  for (int row = top; row < bottom; ++row) {
    const float py = static_cast<float>(row) - from.y;
    for (int four = left / 4; four * 4 < right; ++four)
      // The inner loop always has four columns, so that the compiler vectorises it.
      for (int column = four * 4; column < four * 4 + 4; ++column) {
        const float px = static_cast<float>(column) - from.x;
        float along = (px * dx + py * dy) * per_length;
        along = along < 0 ? 0 : along;
        along = along > 1 ? 1 : along;
        const float x = px - along * dx, y = py - along * dy;
        const float ink = (reach * reach - (x * x + y * y)) * fall;
        drawing[row][column] = drawing[row][column] < ink ? ink : drawing[row][column];
      }
  }
}

void draw_glyph(Drawing& drawing, int digit, Random& random) {
  const Hand hand(random);
  const float half_width = random.between(0.8f, 1.5f);
  Point last{};
  for (const auto& point : glyph(digit, static_cast<int>(random.bits() & 1))) {
    const Point next = hand.place(point, random);
    if (!point.lift) draw_line(drawing, last, next, half_width);
    last = next;
  }
}

// Adds noise: a stray pen stroke at a random place of the drawing.
void draw_clutter(Drawing& drawing, Random& random) {
  const float side = image_side;
  const Point from{random.between(0, side), random.between(0, side)};
  const Point to{from.x + random.between(-5, 5), from.y + random.between(-5, 5)};
  draw_line(drawing, from, to, random.between(0.5f, 0.9f));
}

void to_pixels(const Drawing& drawing, Random& random, std::span<uint8_t> pixels) {
  const float ink = random.between(170, 255), noise = random.between(0.05f, 0.4f);
  std::array<uint64_t, image_bytes / sizeof(uint64_t)> words;
  for (auto& word : words) word = random.bits();
  const auto* bytes = reinterpret_cast<const uint8_t*>(words.data());
  for (int64_t row = 0; row < image_side; ++row)
    for (int64_t column = 0; column < image_side; ++column) {
      const float depth = drawing[row][column] > 1 ? 1 : drawing[row][column];
      const float grain = (static_cast<float>(bytes[row * image_side + column]) - 128) * noise;
      float value = depth * ink + grain;
      value = value < 0 ? 0 : value;
      value = value > 255 ? 255 : value;
      pixels[row * image_side + column] = static_cast<uint8_t>(static_cast<int32_t>(value));
    }
}

}  // namespace

uint8_t drawn_label(uint64_t seed, int64_t index) {
  std::array<uint8_t, 10> digits{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  uint64_t random = mix64(mix64(seed) + static_cast<uint64_t>(index / 10));
  for (int left = 10; left > 1; random /= left--) std::swap(digits[left - 1], digits[random % left]);
  return digits[index % 10];
}

void draw_digit(uint64_t seed, int64_t index, std::span<uint8_t> pixels) {
  Random random(mix64(mix64(seed ^ 0x6469676974u) + static_cast<uint64_t>(index)));
  Drawing drawing{};
  draw_glyph(drawing, drawn_label(seed, index), random);
  draw_clutter(drawing, random);
  to_pixels(drawing, random, pixels);
}

}  // namespace dpbench
