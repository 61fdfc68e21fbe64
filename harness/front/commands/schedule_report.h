// Examines a pipeline schedule and formats the result: a text with a picture and figures, a table, JSON or SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"
#include "strategies/schedule/families/families.h"
#include "strategies/schedule/simulate.h"
#include "strategies/schedule/verify.h"

namespace dpbench {

// A schedule with the faults that the verifier found and, if there are none, its simulated times.
struct ExaminedSchedule {
  // A built-in schedule or the user's. If it has no fault and no transfers, examine() has added the sends and receives.
  pipeline::Schedule schedule;
  std::vector<pipeline::Fault> faults = {};
  pipeline::Costs costs;  // times of computing 1/P of the model, where P is the number of ranks, as the user gave them
  pipeline::Simulation simulation = {};
  const pipeline::Family* family = nullptr;  // built-in family of the schedule; null if it was read from a file
  std::optional<double> formula = {};        // bubble by the family's closed formula; unset if none applies

  bool right() const { return faults.empty(); }
};

// Limits of a schedule that the user declares: live activations of a rank, and receive buffers (slots) of a channel,
// which is one direction of the boundary between two stages. An unset limit is taken from the schedule.
struct Declared {
  std::optional<int> live, slots;
};

// Verifies a pipeline schedule. If the schedule has no fault and no transfers, adds the needed sends and receives and
// verifies it again. Then simulates it.
ExaminedSchedule examine(pipeline::Schedule schedule, const pipeline::Family* family, const pipeline::Costs& costs,
                         const Declared& declared);

std::string percent_of(double part, double whole);  // returns e.g. "12.5 %"
// Returns the schedule's name and sizes, such as "1f1b: 2 ranks with 1 stage each, 8 micro-batches".
std::string sizes_text(const pipeline::Schedule& schedule);
std::string faults_text(const ExaminedSchedule& examined);
std::string schedule_text(const ExaminedSchedule& examined, bool colour, size_t width);
// Formats several schedules as a table, one line for each.
std::string schedules_text(const std::vector<ExaminedSchedule>& all);
std::string schedule_svg(const ExaminedSchedule& examined);
Json schedule_json(const ExaminedSchedule& examined);

// Lists the built-in schedules, and the rules of the verifier.
std::string families_text();

}  // namespace dpbench
