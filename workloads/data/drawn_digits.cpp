#include "workloads/data/drawn_digits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "workloads/data/glyphs.h"
#include "workloads/hash.h"

namespace dpbench {
namespace {

constexpr int padded_side = 32;  // of a row in the drawing, so that loops over it have a round length
using Drawing = std::array<std::array<float, padded_side>, image_side>;

struct Point {
  float x, y;
};

class Random {
 public:
  explicit Random(uint64_t key) : key_(key) {}
  uint64_t bits() { return mix64(key_ + ++count_); }
  // Evenly in [low, high).
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 40) * (1.0f / (1 << 24));
  }

 private:
  uint64_t key_, count_ = 0;
};

// How one row is written: the box of 100 x 100 to pixels.
struct Hand {
  Point scale, shift;
  float slant, turn, wobble;  // turn in radians, small: sine and cosine by their first terms

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

// The pixels from first to last - 1 that a line from a to b reaches, of so many.
std::pair<int, int> reached(float a, float b, float reach, int count) {
  const int first = static_cast<int>(std::min(a, b) - reach), last = static_cast<int>(std::max(a, b) + reach) + 1;
  return {std::clamp(first, 0, count), std::clamp(last, 0, count)};
}

// Puts a line of this half width on the drawing: full ink up to one pixel inside its edge, then falling to nothing.
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
      for (int column = four * 4; column < four * 4 + 4; ++column) {  // of fixed length: becomes one vector
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

// A stray stroke somewhere, as from a neighbouring word.
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
  uint64_t choice = mix64(mix64(seed) + static_cast<uint64_t>(index / 10));
  for (int left = 10; left > 1; choice /= left--) std::swap(digits[left - 1], digits[choice % left]);
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
