#include "harness/forecast/project/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpbench {
namespace {

constexpr int most_rounds = 30;
constexpr double no_limit = 1e30;  // bandwidth in bytes per second that stands for unlimited

using Row = std::array<double, 3>;

// Solves a least-squares problem by the normal equations. Only the unknowns in `set` may differ from 0. Returns false
// if the equations are singular.
bool solve(const std::vector<Row>& rows, const std::vector<double>& goal, unsigned set, Row& x) {
  std::vector<int> used;
  for (int i = 0; i < 3; ++i)
    if (set >> i & 1) used.push_back(i);
  const size_t n = used.size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n + 1));
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) m[i][j] += rows[r][used[i]] * rows[r][used[j]];
      m[i][n] += rows[r][used[i]] * goal[r];
    }
  for (size_t i = 0; i < n; ++i) {
    size_t best = i;
    for (size_t k = i; k < n; ++k)
      if (std::abs(m[k][i]) > std::abs(m[best][i])) best = k;
    std::swap(m[i], m[best]);
    if (std::abs(m[i][i]) < 1e-12) return false;
    for (size_t k = 0; k < n; ++k)
      if (k != i) {
        const double factor = m[k][i] / m[i][i];
        for (size_t j = i; j <= n; ++j) m[k][j] -= factor * m[i][j];
      }
  }
  x = {};
  for (size_t i = 0; i < n; ++i) x[used[i]] = m[i][n] / m[i][i];
  return true;
}

double squares(const std::vector<Row>& rows, const std::vector<double>& goal, const Row& x) {
  double sum = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double off = rows[r][0] * x[0] + rows[r][1] * x[1] + rows[r][2] * x[2] - goal[r];
    sum += off * off;
  }
  return sum;
}

Fit fit_of(const Row& x) { return {.compute_s = x[0], .latency_s = x[1], .seconds_per_byte = x[2]}; }

double predicted_s(const StepShape& shape, Algorithm algorithm, int world, const Fit& fit) {
  return step_time(shape, fit.compute_s, world, fit.network(), algorithm).step_s;
}

// Returns the derivatives of the predicted step time at x, by computing time, latency and seconds per byte, each
// multiplied by its unit. The step time is piecewise linear in x and 0 for x = 0, so its derivatives are its
// coefficients as long as the critical path stays the same.
Row derivatives(const StepShape& shape, Algorithm algorithm, int world, const Row& x, const Row& unit) {
  constexpr double change = 1e-6;  // small against 1, but large against rounding errors
  const double step_s = predicted_s(shape, algorithm, world, fit_of(x));
  Row row{};
  for (size_t i = 0; i < row.size(); ++i) {
    Row changed = x;
    changed[i] += change * unit[i];
    row[i] = (predicted_s(shape, algorithm, world, fit_of(changed)) - step_s) / change;
  }
  return row;
}

double error_of(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times, const Fit& fit) {
  double sum = 0;
  for (const auto& [world, step_s] : times) {
    const double off = predicted_s(shape, algorithm, world, fit) / step_s - 1;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(times.size()));
}

// Fits iteratively from the estimate x: fits with the derivatives at x, which gives the next x, until the error of the
// fit no longer changes.
Fit fit_from(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times, const Row& unit, Row x) {
  Fit best{.error = std::numeric_limits<double>::infinity()};
  double last_error = best.error;
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<Row> rows;
    for (const auto& [world, step_s] : times) {
      rows.push_back(derivatives(shape, algorithm, world, x, unit));
      for (double& value : rows.back()) value /= step_s;
    }
    x = nonnegative_least_squares(rows, std::vector<double>(times.size(), 1));
    for (size_t i = 0; i < x.size(); ++i) x[i] *= unit[i];
    Fit fit = fit_of(x);
    fit.error = error_of(shape, algorithm, times, fit);
    if (fit.error < best.error) best = fit;
    if (std::abs(fit.error - last_error) < 1e-7) break;
    last_error = fit.error;
  }
  return best;
}

}  // namespace

std::array<double, 3> nonnegative_least_squares(const std::vector<Row>& rows, const std::vector<double>& goal) {
  Row best{};
  double least = squares(rows, goal, best);
  for (unsigned set = 1; set < 8; ++set) {
    Row x{};
    if (!solve(rows, goal, set, x) || *std::min_element(x.begin(), x.end()) < 0) continue;
    if (const double sum = squares(rows, goal, x); sum < least) least = sum, best = x;
  }
  return best;
}

Network Fit::network() const {
  const Link link{seconds_per_byte > 0 ? 1 / seconds_per_byte : no_limit, latency_s};
  return {link, link, 0};
}

Fit fit_steps(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times) {
  double number = 1, bytes = 1;
  for (const StepCollective& one : shape.collectives) number += 1, bytes += one.bytes;
  // These units give the columns of the least-squares problem similar magnitudes.
  const double step_s = times.at(0).step_s;
  const Row unit = {step_s, step_s / number, step_s / bytes};
  Fit best{.error = std::numeric_limits<double>::infinity()};
  // Start with different ratios of communication to computing, because each ratio has other critical paths.
  for (const double communication : {0.1, 0.5, 0.9}) {
    const Row start = {(1 - communication) * unit[0], 0, communication * unit[2]};
    const Fit fit = fit_from(shape, algorithm, times, unit, start);
    if (fit.error < best.error) best = fit;
  }
  return best;
}

}  // namespace dpbench
