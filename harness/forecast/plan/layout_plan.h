// Predicts the step time and memory of the candidate layouts of a model on a number of devices, and finds the best
// layouts.
#pragma once

#include <string>
#include <vector>

#include "harness/forecast/plan/predict.h"
#include "harness/report/record/report.h"

namespace dpbench::forecast {

struct PlanRequest {
  std::string model = {};
  gpt::Shape shape = {};
  Dtype dtype = Dtype::f32;
  bool gpus = false;
  int devices = 1;
  int64_t batch = 1;        // samples per step, over all devices
  double memory_bytes = 0;  // memory of a device; 0: no limit
  Machine machine = {};
  std::vector<MeshShape> meshes = {};        // meshes for which layouts are predicted; empty: all possible meshes
  std::vector<std::string> strategies = {};  // strategies to plan; empty: all
};

struct Advised {
  Prediction prediction;
  std::vector<std::string> reasons;
};

struct LayoutPlan {
  PlanRequest asked;
  size_t examined = 0, too_large = 0;
  // fitting: layouts that fit into memory, fastest first. For each mesh and strategy, it has only the Pareto front of
  // time and memory, or all layouts if the user named meshes. unfitting: for each mesh and strategy without a fitting
  // layout, the layout that needs the least memory.
  std::vector<Prediction> fitting = {}, unfitting = {};
  std::vector<Prediction> front = {};  // Pareto front of `fitting` in time and memory, fastest first
  std::vector<Advised> best = {};      // the fastest layouts, up to three, each with another mesh or strategy
};

LayoutPlan plan_layouts(const PlanRequest& asked);

// Returns the position of a layout in plan.best, from 1; 0 if plan.best lacks it.
size_t place_among_best(const LayoutPlan& plan, const Layout& layout);

double tokens_per_s(const LayoutPlan& plan, const Prediction& prediction);

// Returns the rows of a plan's table: a title row, then at most 12 layouts (the best ones and the Pareto front).
std::vector<std::vector<std::string>> layout_rows(const LayoutPlan& plan);
const std::vector<bool>& layout_columns_right();
std::string plan_heading(const LayoutPlan& plan);
// Returns the lines below a plan's table: where its figures come from, and the limits of the prediction.
std::vector<std::string> plan_remarks(const LayoutPlan& plan);
Json to_json(const LayoutPlan& plan);
Json plan_schema();

}  // namespace dpbench::forecast
