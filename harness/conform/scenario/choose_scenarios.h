// Chooses the scenarios of a case, and gives the scenario `unwatched` the shape of a timed run. All functions here are
// pure.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/conform/scenario/bench.h"

namespace dpbench {

// Properties of a case that decide which scenarios run and how long they are.
struct CaseTraits {
  at::ScalarType dtype = at::kFloat;  // dtype of scenarios that do not run in float64
  bool probe = false;                 // the workload is a probe (a small test model)
  // A probe with a large parameter, so each step is slow. False with --long, which runs this probe like a small one.
  bool large = false;
  // The model's tensors take so much memory that the checks cannot keep many of them: at most two micro-batches and
  // few steps in all scenarios but `unwatched`, and one scenario is judged at a time.
  bool heavy = false;
  // True: slow scenarios run too. False: only fast ones run and, except for `unwatched`, take at most two steps.
  bool costly = false;
  // True in the checks before timing: scenarios other than `unwatched` take at most two steps, except with a probe.
  bool brief = false;
  // Samples per micro-batch of a rank and micro-batches per step of the timed case; 0: chosen by the seed.
  int64_t own_samples = 0, own_micros = 0;

  bool small_probe() const { return probe && !large; }
};

std::vector<Scenario> choose_scenarios(const Bench& bench, const CaseTraits& traits);

struct TimedShape {
  int64_t samples = 0, steps = 0;  // samples: samples per micro-batch of a rank
};

// Returns the case's own batch for the scenario `unwatched`, and as many steps as the oracle (reference computation)
// finishes within `limit_s`. If even a few steps of that batch take too long, the batch becomes smaller. A small probe
// takes at least 16 steps, or all of the scenario if CaseTraits::costly is set. sample_s: the oracle's time for a step,
// per sample of a micro-batch.
TimedShape affordable_shape(const Scenario& scenario, const CaseTraits& traits, double sample_s, double limit_s);

}  // namespace dpbench
