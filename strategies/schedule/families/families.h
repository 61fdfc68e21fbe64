// The built-in pipeline schedules. Each has a generator, and from its paper the limits on ranks and micro-batches and
// the closed formula of the idle time (bubble). A new schedule needs one generator and one entry in families().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/schedule/schedule.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::pipeline {

struct Request {
  int ranks = 4;
  int chunks = 1;  // number of pipeline stages on each rank; for dualpipe, of each of the two directions
  int microbatches = 8;
};

// The two definitions of a rank's idle time that bubble formulas use.
enum class BubbleOf {
  step,  // all idle time between the first and the last action of the whole step, on any rank
  span   // idle time between the rank's own first and last action
};

struct Family {
  std::string name, summary, source;
  std::string requires_text = {};  // the schedule's limits on ranks, chunks and micro-batches, as text; empty: none
  // The formula of the idle time (bubble), as text. P, M and V are the numbers of ranks, micro-batches and chunks. F, B
  // and W are the times of forward pass, input gradient and weight gradient of 1/P of the model.
  std::string bubble_text = {};
  std::string exact_text = {};  // condition under which the formula in bubble_text is exact, as text; empty: always
  BubbleOf bubble_of = BubbleOf::step;
  int least_chunks = 1, most_chunks = 1;

  // Returns the limit that the schedule sets and these numbers of ranks and micro-batches break; an empty string if
  // there is none.
  std::string (*refusal)(const Request&) = nullptr;
  Schedule (*make)(const Request&) = nullptr;
  // Returns the idle time by the closed formula, for these times of one stage; nullopt where the formula does not hold.
  std::optional<double> (*bubble)(const Request&, const Costs&) = nullptr;
};

const std::vector<Family>& families();
const Family* find_family(const std::string& name);

// Returns a schedule of this family, for the requested numbers of ranks, chunks (stages per rank) and micro-batches.
// Throws UsageError if the family has none for these numbers.
Schedule make_schedule(const Family& family, const Request& request);

// Generators of the schedules. They make computations only; lower() adds transfers. Each generator declares the highest
// number of live activations of each rank.
Schedule make_gpipe(const Request& request);
Schedule make_1f1b(const Request& request);
Schedule make_interleaved(const Request& request);
Schedule make_zb_h1(const Request& request);
Schedule make_zb_h2(const Request& request);
Schedule make_zbv(const Request& request);
Schedule make_dualpipe(const Request& request);

}  // namespace dpbench::pipeline
