#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "strategies/schedule/draw.h"

namespace dpbench::pipeline {
namespace {

// Background colours of the 256-colour terminal palette on which black text is legible.
constexpr int palette[] = {117, 215, 120, 218, 229, 147, 180, 159, 210, 190, 183, 152};

struct Box {
  size_t first = 0, end = 0;  // first column of the box in the terminal, and the column after its last
  std::string text;
  int microbatch = 0;
};

// Returns the duration of the shortest computation, which is the unit of time of the picture.
double unit_of(const Simulation& simulation) {
  double unit = std::numeric_limits<double>::max();
  for (const RankTimes& rank : simulation.ranks)
    for (const Timed& one : rank.computations)
      if (one.end > one.start) unit = std::min(unit, one.end - one.start);
  return unit;
}

size_t column_of(double time, double columns_per_time) {
  return static_cast<size_t>(std::llround(time * columns_per_time));
}

// Returns a box for each computation of a rank. The two computations of an overlapped pair share their columns: the
// forward pass gets the first half.
std::vector<Box> boxes_of(const RankTimes& rank, double columns_per_time, bool stage_in_text) {
  std::vector<Box> boxes;
  bool overlapped = false;  // true if the computation before this one is the first of an overlapped pair
  for (const Timed& one : rank.computations) {
    Box box{.first = column_of(one.start, columns_per_time),
            .end = column_of(one.end, columns_per_time),
            .text = text_of(one.action),
            .microbatch = one.action.microbatch};
    if (!stage_in_text) box.text.erase(0, box.text.find_first_not_of("0123456789"));
    if (overlapped && box.end > box.first + 1) boxes.back().end = box.first = (box.first + box.end) / 2;
    boxes.push_back(box);
    overlapped = one.action.overlaps_next;
  }
  return boxes;
}

std::string lane(const std::vector<Box>& boxes, const TextStyle& style, size_t columns) {
  std::string text;
  size_t at = 0;
  for (const Box& box : boxes) {
    if (box.first >= columns) break;
    if (box.first > at) text.append(box.first - at, ' ');
    const size_t size = std::min(box.end, columns) - std::max(box.first, at);
    std::string inside = box.text.substr(0, size);
    // Without colours, dashes fill a box to show its length. The last column of a box stays empty, to separate it from
    // the next box.
    if (size > inside.size()) inside.append(size - inside.size() - 1, style.colour ? ' ' : '-').append(1, ' ');
    at = std::max(box.first, at) + size;
    if (style.colour)
      text += "\x1B[30;48;5;" + std::to_string(palette[box.microbatch % std::size(palette)]) + "m" + inside + "\x1B[0m";
    else
      text += inside;
  }
  if (!style.colour) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// Fills a box with repetitions of its action's letter, such as FFF, in lower case for every second stage of the rank.
// all: true to fill every box; false to fill only boxes that are too narrow for their text.
void shorten(std::vector<Box>& boxes, const RankTimes& rank, bool all) {
  std::map<int, int> chunk_of;  // index of each stage in the list of this rank's stages
  for (const Timed& one : rank.computations) chunk_of[one.action.stage] = 0;
  int chunk = 0;
  for (auto& [stage, number] : chunk_of) number = chunk++;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!all && boxes[i].text.size() < boxes[i].end - boxes[i].first) continue;
    const Action& action = rank.computations[i].action;
    const bool second = chunk_of[action.stage] % 2 == 1;
    const char letter = name_of(action.kind)[0];
    boxes[i].text.assign(boxes[i].end - boxes[i].first, second ? static_cast<char>(letter - 'A' + 'a') : letter);
  }
}

}  // namespace

std::string letters_of(const Schedule& schedule) {
  const std::pair<Kind, const char*> all[] = {{Kind::forward, "F forward"},
                                              {Kind::full_backward, "B backward"},
                                              {Kind::input_gradient, "I input gradient"},
                                              {Kind::weight_gradient, "W weight gradient"}};
  std::string text;
  for (const auto& [kind, meaning] : all)
    if (std::ranges::any_of(schedule.ranks, [kind = kind](const std::vector<Action>& list) {
          return std::ranges::find(list, kind, &Action::kind) != list.end();
        }))
      text += (text.empty() ? "" : ", ") + std::string(meaning);
  return text;
}

std::string draw_text(const Schedule& schedule, const Simulation& simulation, const TextStyle& style) {
  const bool stage_in_text = schedule.stages() > schedule.world();
  size_t longest = 0;
  for (const RankTimes& rank : simulation.ranks)
    for (const Box& box : boxes_of(rank, 0, stage_in_text)) longest = std::max(longest, box.text.size());
  const double unit = unit_of(simulation);
  const size_t label = 6 + std::to_string(schedule.world() - 1).size();
  const size_t room = style.width > label + 10 ? style.width - label : 10;
  const auto wide = static_cast<double>(longest + 1) / unit, narrow = 1 / unit;
  const bool spans = style.span > 0;
  const bool compact = !spans && column_of(simulation.makespan, wide) > room;
  const double scale = spans ? static_cast<double>(room) / style.span : compact ? narrow : wide;
  std::string text;
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    std::vector<Box> boxes = boxes_of(simulation.ranks[rank], scale, stage_in_text);
    if (compact || spans) shorten(boxes, simulation.ranks[rank], compact);
    std::string name = "rank " + std::to_string(rank);
    name.resize(label, ' ');
    text += name + lane(boxes, style, room) + "\n";
  }
  if (const size_t columns = column_of(simulation.makespan, scale); columns > room)
    text += "the picture goes on for " + std::to_string(columns - room) + " columns; -o svg draws all of it\n";
  if (compact)
    text += "one letter is one unit of time" +
            std::string(stage_in_text ? "; lower case: every second stage of a rank" : "") + "\n";
  return text;
}

}  // namespace dpbench::pipeline
