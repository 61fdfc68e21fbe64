#include "harness/forecast/plan/layout_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/forecast/output.h"
#include "harness/forecast/plan/words.h"
#include "strategies/schedule/svg.h"

namespace dpbench::forecast {
namespace {

using svg::escaped;
using svg::number;
using svg::text_at;

// The map, a chart of step time against memory, omits layouts that need more memory than this multiple of the limit.
constexpr double hidden_beyond = 4;

// Maps values to positions from 0 to 1 on a logarithmic axis of a chart. take() extends the axis to a value.
struct Scale {
  double low = std::numeric_limits<double>::infinity(), high = 0;

  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
  double place(double value) const { return high > low ? std::log(value / low) / std::log(high / low) : 0.5; }
};

struct Point {
  const Prediction* prediction;
  bool fits;
  size_t best;  // place of the layout among the plan's best layouts, 1 being the fastest; 0: it is not among them
};

struct Map {
  std::vector<Point> points;
  Scale memory, time;
  size_t hidden = 0;  // number of layouts beyond hidden_beyond times the limit
};

Map map_of(const LayoutPlan& plan) {
  Map map;
  const double limit = plan.asked.memory_bytes;
  const auto add = [&](const Prediction& one, bool fits) {
    if (!fits && one.memory.total() > hidden_beyond * limit) {
      ++map.hidden;
      return;
    }
    map.points.push_back({&one, fits, place_among_best(plan, one.layout)});
    map.memory.take(one.memory.total());
    map.time.take(one.time.step_s());
  };
  for (const Prediction& one : plan.fitting) add(one, true);
  for (const Prediction& one : plan.unfitting) add(one, false);
  if (limit > 0) map.memory.take(limit);
  // Draw the points of the best layouts last, so that no other point covers them.
  std::ranges::stable_sort(map.points, {}, [](const Point& one) { return one.best > 0; });
  return map;
}

std::string seconds_text(double seconds) {
  if (seconds < 1) return text_of_number(1e3 * seconds, "%.3g ms");
  return text_of_number(seconds, seconds < 1000 ? "%.3g s" : "%.0f s");
}

// Says how many of the examined layouts the map shows.
std::string drawn_text(const LayoutPlan& plan, const Map& map) {
  std::string text = std::to_string(map.points.size()) + " of " + std::to_string(plan.examined) + " layouts";
  if (map.hidden > 0)
    text += ", without " + std::to_string(map.hidden) + " above " + text_of_number(hidden_beyond, "%g") +
            " times the memory";
  return text;
}

std::string title_of(const LayoutPlan& plan) {
  if (plan.best.empty()) return "No layout fits into " + gigabytes(plan.asked.memory_bytes) + " GB";
  const Prediction& best = plan.best.front().prediction;
  return text_of(best.layout) + " is the fastest that fits: " + seconds_text(best.time.step_s()) + ", " +
         gigabytes(best.memory.total()) + " GB";
}

}  // namespace

std::string map_text(const LayoutPlan& plan, size_t width) {
  constexpr size_t height = 16, margin = 10;
  const Map map = map_of(plan);
  if (map.points.empty()) return "";
  const size_t columns = std::max<size_t>(20, width - margin - 1);
  std::vector<std::string> lines(height, std::string(columns, ' '));
  const auto column = [&](double bytes) {
    return static_cast<size_t>(std::lround(map.memory.place(bytes) * static_cast<double>(columns - 1)));
  };
  if (plan.asked.memory_bytes > 0)
    for (std::string& line : lines) line[column(plan.asked.memory_bytes)] = '|';
  for (const Point& point : map.points) {
    const double place = map.time.place(point.prediction->time.step_s());
    const auto line = static_cast<size_t>(std::lround((1 - place) * static_cast<double>(height - 1)));
    char& cell = lines[line][column(point.prediction->memory.total())];
    cell = point.best > 0 ? static_cast<char>('0' + point.best) : point.fits ? 'o' : 'x';
  }
  std::string text;
  for (size_t i = 0; i < height; ++i) {
    std::string label = i == 0 ? seconds_text(map.time.high) : i + 1 == height ? seconds_text(map.time.low) : "";
    label.resize(margin - 1, ' ');
    text += label + "|" + lines[i].substr(0, lines[i].find_last_not_of(' ') + 1) + "\n";
  }
  const std::string low = gigabytes(map.memory.low) + " GB", high = gigabytes(map.memory.high) + " GB";
  text += std::string(margin - 1, ' ') + "+" + std::string(columns, '-') + "\n" + std::string(margin, ' ') + low +
          std::string(columns > low.size() + high.size() ? columns - low.size() - high.size() : 1, ' ') + high + "\n";
  text += std::string(margin, ' ') + "o fits, x does not, 1 to 3: the best";
  if (plan.asked.memory_bytes > 0) text += ", |: " + gigabytes(plan.asked.memory_bytes) + " GB";
  text += "\n" + std::string(margin, ' ') + drawn_text(plan, map);
  return text + "\n" + std::string(margin, ' ') + "up: time of a step, right: memory of a device, both logarithmic\n";
}

std::string map_svg(const LayoutPlan& plan) {
  constexpr double left = 80, top = 80, width = 720, height = 400, edge = 24;
  const Map map = map_of(plan);
  // The run and the cases to which the device speed was fitted: "run ID: case ids".
  const std::string& fitted_to = plan.asked.machine.speed.fitted_to;
  const auto x_of = [&](double bytes) { return left + edge + map.memory.place(bytes) * (width - 2 * edge); };
  const auto y_of = [&](double seconds) { return top + height - edge - map.time.place(seconds) * (height - 2 * edge); };
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(left + width + 20) + "\" height=\"" +
                    number(top + height + 60) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
                    text_at(8, 20, "start", title_of(plan)) + text_at(8, 40, "start", plan_heading(plan)) +
                    text_at(8, 56, "start",
                            "speed of a device fitted to " + fitted_to.substr(0, fitted_to.find(": ")) + "; " +
                                drawn_text(plan, map)) +
                    "<rect x=\"" + number(left) + "\" y=\"" + number(top) + "\" width=\"" + number(width) +
                    "\" height=\"" + number(height) + "\" fill=\"none\" stroke=\"#888\"/>\n";
  if (plan.asked.memory_bytes > 0) {
    const double x = x_of(plan.asked.memory_bytes);
    svg += "<line x1=\"" + number(x) + "\" y1=\"" + number(top) + "\" x2=\"" + number(x) + "\" y2=\"" +
           number(top + height) + "\" stroke=\"#b00020\" stroke-dasharray=\"6 4\"/>\n" +
           text_at(x, top - 4, "middle", gigabytes(plan.asked.memory_bytes) + " GB");
  }
  for (const Point& point : map.points) {
    const Prediction& one = *point.prediction;
    const double x = x_of(one.memory.total()), y = y_of(one.time.step_s());
    const char* colour = point.best > 0 ? "#0b57d0" : point.fits ? "#4a7" : "#bbb";
    // Each layout is a hollow circle in the chart, to show that its step time is predicted, not measured.
    svg += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + (point.best > 0 ? "7" : "4") +
           "\" fill=\"white\" stroke=\"" + colour + "\" stroke-width=\"1.6\"><title>" +
           escaped(text_of(one.layout) + ": " + seconds_text(one.time.step_s()) + ", " + gigabytes(one.memory.total()) +
                   " GB; " + parts_text(one.time) + "; " + parts_text(one.memory)) +
           "</title></circle>\n";
    if (point.best > 0) svg += text_at(x, y + 4, "middle", std::to_string(point.best));
  }
  if (map.points.empty()) return svg + "</svg>\n";
  const double bottom = top + height;
  svg += text_at(left + edge, bottom + 18, "middle", gigabytes(map.memory.low) + " GB") +
         text_at(left + width - edge, bottom + 18, "middle", gigabytes(map.memory.high) + " GB") +
         text_at(left + width / 2, bottom + 36, "middle", "memory of a device (logarithmic)") +
         text_at(left - 6, y_of(map.time.low) + 4, "end", seconds_text(map.time.low)) +
         text_at(left - 6, y_of(map.time.high) + 4, "end", seconds_text(map.time.high)) +
         text_at(left, bottom + 54, "start",
                 "hollow: predicted, not measured; green fits, grey does not; time of a step upwards (logarithmic)");
  return svg + "</svg>\n";
}

}  // namespace dpbench::forecast
