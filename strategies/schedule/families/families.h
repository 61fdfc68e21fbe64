// The built-in schedules: a generator each, with the limits and closed formulas of its paper. Adding a schedule means
// one generator and one entry of families().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/schedule/schedule.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::pipeline {

struct Request {
  int ranks = 4;
  int chunks = 1;  // stages on each rank (dualpipe: of each direction)
  int microbatches = 8;
};

// The period over which a bubble formula counts the idle time of a rank.
enum class BubbleOf {
  step,  // of a rank from the first action of all ranks to the last
  span   // of a rank from its own first action to its own last
};

struct Family {
  std::string name, summary, source;
  std::string requires_text = {};  // limits on ranks, chunks and micro-batches; empty: none
  std::string bubble_text = {};    // closed formula of the bubble; F, B and W: times of 1/P of the model
  std::string exact_text = {};     // when the formula is exact
  BubbleOf bubble_of = BubbleOf::step;
  int least_chunks = 1, most_chunks = 1;

  // Returns the reason why the schedule does not exist for this request; empty if it does.
  std::string (*refusal)(const Request&) = nullptr;
  Schedule (*make)(const Request&) = nullptr;
  // Returns the closed formula's bubble for the costs of one stage, or nullopt outside the formula's range.
  std::optional<double> (*bubble)(const Request&, const Costs&) = nullptr;
};

const std::vector<Family>& families();
const Family* find_family(const std::string& name);

// Returns the schedule of a family. Throws UsageError if it does not exist for this request.
Schedule make_schedule(const Family& family, const Request& request);

// Generators, one file for each family. They make computations only; lower() adds transfers. Each declares the live
// activations of its ranks.
Schedule make_gpipe(const Request& request);
Schedule make_1f1b(const Request& request);
Schedule make_interleaved(const Request& request);
Schedule make_zb_h1(const Request& request);
Schedule make_zb_h2(const Request& request);
Schedule make_zbv(const Request& request);
Schedule make_dualpipe(const Request& request);

}  // namespace dpbench::pipeline
