// Predicts all layouts of a model on a number of devices, and finds the best.
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
  int64_t batch = 1;        // rows of a step, on all devices
  double memory_bytes = 0;  // of a device; 0: no limit
  Machine machine = {};
  std::vector<MeshShape> meshes = {};        // only these; empty: all
  std::vector<std::string> strategies = {};  // only these; empty: all
};

struct Advised {
  Prediction prediction;
  std::vector<std::string> reasons;
};

struct LayoutPlan {
  PlanRequest asked;
  size_t examined = 0, too_large = 0;
  // fitting: the Pareto front in time and memory of each mesh and strategy, or all layouts of the meshes that were
  // asked for; the fastest first. unfitting: the smallest layout of each mesh and strategy of which none fits.
  std::vector<Prediction> fitting = {}, unfitting = {};
  std::vector<Prediction> front = {};  // Pareto front of `fitting` in time and memory, the fastest first
  std::vector<Advised> best = {};      // the fastest three of different meshes or strategies
};

LayoutPlan plan_layouts(const PlanRequest& asked);

// Returns the place of a layout in plan.best, from 1; 0 if it is not there.
size_t place_among_best(const LayoutPlan& plan, const Layout& layout);

double tokens_per_s(const LayoutPlan& plan, const Prediction& prediction);

// Returns the table of the front and of the best layouts, with a title row.
std::vector<std::vector<std::string>> layout_rows(const LayoutPlan& plan);
const std::vector<bool>& layout_columns_right();
std::string plan_heading(const LayoutPlan& plan);
// Returns lines about the sources of the figures and the limits of the prediction.
std::vector<std::string> plan_remarks(const LayoutPlan& plan);
Json to_json(const LayoutPlan& plan);

}  // namespace dpbench::forecast
