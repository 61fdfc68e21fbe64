// Draws a simulated pipeline schedule as papers do: time to the right, a lane for each rank, a colour for each
// micro-batch.
#pragma once

#include <string>

#include "strategies/schedule/schedule.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::pipeline {

struct TextStyle {
  bool colour = false;
  size_t width = 120;  // width of the drawing in terminal columns
  double span = 0;     // time that `width` shows; 0: as much as makes the shortest box wide enough for its text
};

// Draws for a terminal: a box for each computation, with its action's letter (letters_of()) and micro-batch. If the
// boxes do not fit the width, each unit of time (the shortest computation) is one such letter, in lower case for every
// second stage of a rank. A picture that is still too wide is cut off. If style.span fixes the time that the width
// shows, only boxes that are too narrow for their text consist of letters.
std::string draw_text(const Schedule& schedule, const Simulation& simulation, const TextStyle& style);

// ran: the schedule as it ran, drawn beneath on the same scale; null: none.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                     const Simulation* ran = nullptr);

// Returns an explanation of the action letters that the schedule uses, such as "F forward, B backward".
std::string letters_of(const Schedule& schedule);

}  // namespace dpbench::pipeline
