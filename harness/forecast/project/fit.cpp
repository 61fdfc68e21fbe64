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

// Returns the candidate critical paths of a step; the longest of them gives the step time. Path i: compute until
// gradient bucket i is ready, reduce bucket i and all later ones, then compute the rest. The last path has only
// computing. All paths include the communication that does not overlap with computing. A path's time is linear in
// computing time, latency and seconds per byte; its row holds the three coefficients.
std::vector<Row> critical_paths(const StepShape& shape, Algorithm algorithm, int world) {
  const auto& collectives = shape.collectives;
  const double k = shape.computing(world), copying = shape.copying(world), overlap = shape.overlap(world);
  Terms blocking, overlapped;
  for (const StepCollective& one : collectives)
    blocking = blocking + terms_of(one.op, algorithm, world, one.bytes) * (one.hides ? 1 - overlap : 1);
  std::vector<Row> paths(collectives.size() + 1, Row{k, blocking.messages, blocking.bytes * copying});
  if (world < 2 || overlap == 0) return paths;  // nothing overlaps with computing, so there is only the last path
  for (size_t i = collectives.size(); i-- > 0;) {
    if (!collectives[i].hides)
      // A collective that computing does not overlap lies on every critical path, so it starts no path of its own.
      continue;
    overlapped = overlapped + terms_of(collectives[i].op, algorithm, world, collectives[i].bytes) * overlap;
    paths[i] = {k * (collectives[i].ready + 1 - shape.backward_end), blocking.messages + overlapped.messages,
                (blocking.bytes + overlapped.bytes) * copying};
  }
  return paths;
}

size_t longest(const std::vector<Row>& paths, const Row& x) {
  const auto length = [&](const Row& row) { return row[0] * x[0] + row[1] * x[1] + row[2] * x[2]; };
  size_t best = paths.size() - 1;
  for (size_t i = 0; i < paths.size(); ++i)
    if (length(paths[i]) > length(paths[best])) best = i;
  return best;
}

Fit fit_of(const Row& x) { return {.compute_s = x[0], .latency_s = x[1], .seconds_per_byte = x[2]}; }

double error_of(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times, const Fit& fit) {
  double sum = 0;
  for (const auto& [world, step_s] : times) {
    const double off = step_time(shape, fit.compute_s, world, fit.network(), algorithm).step_s / step_s - 1;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(times.size()));
}

// Fits iteratively: assumes that path `first` is the longest in every world, fits, finds the longest path in each world
// under this fit, and repeats until the longest paths no longer change.
Fit fit_from(const StepShape& shape, Algorithm algorithm, const std::vector<WorldTime>& times,
             const std::vector<std::vector<Row>>& paths, size_t first) {
  std::vector<size_t> current(times.size(), first);
  Fit best{.error = std::numeric_limits<double>::infinity()};
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<Row> rows;
    for (size_t i = 0; i < times.size(); ++i) {
      Row row = paths[i][current[i]];
      // Scale latencies to microseconds and data to GB, so that the columns of the least-squares problem have similar
      // magnitudes.
      row[1] *= 1e-6, row[2] *= 1e-9;
      for (double& value : row) value /= times[i].step_s;
      rows.push_back(row);
    }
    Row x = nonnegative_least_squares(rows, std::vector<double>(times.size(), 1));
    x[1] *= 1e-6, x[2] *= 1e-9;
    Fit fit = fit_of(x);
    fit.error = error_of(shape, algorithm, times, fit);
    if (fit.error < best.error) best = fit;
    std::vector<size_t> next;
    for (const auto& of_world : paths) next.push_back(longest(of_world, x));
    if (next == current) break;
    current = next;
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
  std::vector<std::vector<Row>> paths;
  for (const auto& time : times) paths.push_back(critical_paths(shape, algorithm, time.world));
  Fit best{.error = std::numeric_limits<double>::infinity()};
  const size_t number = shape.collectives.size();
  for (const size_t first : {number > 0 ? number - 1 : 0, size_t{0}, number}) {
    const Fit fit = fit_from(shape, algorithm, times, paths, first);
    if (fit.error < best.error) best = fit;
  }
  return best;
}

}  // namespace dpbench
