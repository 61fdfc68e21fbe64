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
  // The time span that `width` shows; 0: chosen so that the shortest box is wide enough for its text.
  double span = 0;
};

// Draws the schedule for a terminal: a box for each computation, with its action's letter (letters_of()) and
// micro-batch. If the boxes do not fit the width, each computation is drawn as letters only, one per unit of time (the
// shortest computation), in lower case for every second stage of a rank. A picture that is still too wide is cut off.
// With style.span, which fixes the scale, only boxes that are too narrow for their text are drawn as letters.
std::string draw_text(const Schedule& schedule, const Simulation& simulation, const TextStyle& style);

// ran: the same schedule with measured times, drawn beneath on the same scale; null: none.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                     const Simulation* ran = nullptr);

// Returns an explanation of the action letters that the schedule uses, such as "F forward, B backward".
std::string letters_of(const Schedule& schedule);

}  // namespace dpbench::pipeline
