#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "strategies/schedule/draw.h"
#include "strategies/schedule/svg.h"

namespace dpbench::pipeline {
namespace {

using svg::escaped;
using svg::number;
using svg::text_at;

constexpr double lane_height = 30, lane_gap = 4, left = 64, top = 40, box_width = 24, measured_width = 1200;

// Returns the colour of hue (0 to 1), saturation 0.65 and this lightness as #rrggbb.
std::string rgb(double hue, double lightness) {
  const double chroma = (1 - std::abs(2 * lightness - 1)) * 0.65;
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue * 12, 12);
    const double value = lightness - chroma / 2 * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<unsigned>(std::lround(std::clamp(value, 0.0, 1.0) * 255));
  };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(0), channel(8), channel(4));
  return text;
}

// Colours of one micro-batch: its forward pass has the darkest shade, its weight gradient the lightest.
double lightness_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return 0.62;
    case Kind::weight_gradient:
      return 0.88;
    default:
      return 0.76;
  }
}

std::string box_at(double x, double y, double width, double height, const Action& action, int microbatches) {
  // The golden ratio spreads hues, so that neighbouring micro-batches differ.
  const double hue = microbatches > 12 ? std::fmod(action.microbatch * 0.618034, 1.0)
                                       : static_cast<double>(action.microbatch) / microbatches;
  std::string label = text_of(action);
  label.erase(0, label.find_first_not_of("0123456789"));
  std::string svg = "<g><title>" + escaped(described(action)) + "</title><rect x=\"" + number(x) + "\" y=\"" +
                    number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) + "\" fill=\"" +
                    rgb(hue, lightness_of(action.kind)) + "\" stroke=\"#333\" stroke-width=\"0.6\"/>";
  if (width >= 14) svg += text_at(x + width / 2, y + height / 2 + 4, "middle", label);
  return svg + "</g>\n";
}

double shortest(const Simulation& simulation) {
  double least = std::numeric_limits<double>::max();
  for (const RankTimes& rank : simulation.ranks)
    for (const Timed& one : rank.computations)
      if (one.end > one.start) least = std::min(least, one.end - one.start);
  return least;
}

// Draws a lane for each rank and returns the SVG text. top: the y coordinate of the first lane. name: the label in
// front of the rank's number.
std::string lanes(const Simulation& simulation, int microbatches, double top, double scale, const std::string& name) {
  std::string svg;
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const double y = top + static_cast<double>(rank) * (lane_height + lane_gap);
    svg += text_at(8, y + lane_height / 2 + 4, "start", name + std::to_string(rank));
    const std::vector<Timed>& work = simulation.ranks[rank].computations;
    for (size_t i = 0; i < work.size(); ++i) {
      // The two computations of an overlapped pair start and end together. Each gets half of the lane's height.
      const bool upper = i + 1 < work.size() && work[i].action.overlaps_next;
      const bool lower = i > 0 && work[i - 1].action.overlaps_next;
      const double height = upper || lower ? lane_height / 2 : lane_height;
      svg += box_at(left + work[i].start * scale, y + (lower ? height : 0), (work[i].end - work[i].start) * scale,
                    height, work[i].action, microbatches);
    }
  }
  return svg;
}

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                     const Simulation* ran) {
  const double longest = std::max(simulation.makespan, ran ? ran->makespan : 0);
  // A picture of measured times has a fixed width. Measured times vary, so a scale that fits the shortest box could
  // make the picture far too wide.
  const double scale = ran ? measured_width / longest : box_width / shortest(simulation);
  const double block = schedule.world() * (lane_height + lane_gap), second = top + block + lane_height / 2;
  const double width = left + longest * scale + 16;
  const double bottom = ran ? second + block : top + block;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
                    number(bottom + 44) + "\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" " +
                    "height=\"100%\" fill=\"white\"/>\n" + text_at(8, 20, "start", title);
  svg += lanes(simulation, schedule.microbatches, top, scale, ran ? "plan " : "rank ");
  if (ran) svg += lanes(*ran, schedule.microbatches, second, scale, "ran ");
  svg += text_at(left, bottom + 14, "start", "0") +
         text_at(left + longest * scale, bottom + 14, "end", number(longest)) +
         text_at(8, bottom + 32, "start",
                 "time to the right; " + letters_of(schedule) + "; number and colour: micro-batch");
  return svg + "</svg>\n";
}

}  // namespace dpbench::pipeline
