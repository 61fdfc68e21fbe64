#include "harness/micro/pair_table.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"

namespace dpbench::micro {
namespace {

struct PairFigure {
  const char *counter, *title;
  double scale;
  int decimals;
  bool low_is_bad;
};
constexpr PairFigure pair_figures[] = {
    {"bandwidth_gb_s", "bandwidth (GB/s)", 1, 3, true},
    {"of_copy", "bandwidth (% of a copy by both ranks at once), same host", 100, 0, true},
    {"of_link", "bandwidth (% of a plain TCP connection, or of a copy between GPUs)", 100, 0, true},
    {"latency_us", "latency (us), half a round trip of 4 B", 1, 2, false},
    {"wrong", "wrong elements", 1, 0, false}};

using Row = std::vector<std::string>;

std::string text_of(double value, int decimals) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// Returns a row for each sender and a column for each receiver. titles: the titles of all columns. heads: the first
// cells of each sender's row.
std::vector<Row> rows_of(const Row& titles, const std::vector<Row>& heads, const PairTable::Matrix& matrix,
                         int decimals) {
  std::vector<Row> rows = {titles};
  for (size_t from = 0; from < heads.size(); ++from) {
    Row& row = rows.emplace_back(heads[from]);
    for (size_t to = 0; to < heads.size(); ++to) {
      const auto found = matrix.find({from, to});
      row.push_back(found == matrix.end() ? "-" : text_of(found->second, decimals));
    }
  }
  return rows;
}

void print_rows(std::ostream& out, const std::string& title, const std::vector<Row>& rows,
                const std::vector<bool>& right) {
  out << "\n" << folded("# " + title + "\n");
  for (const std::string& row : folded_rows(rows, right, fold_width())) out << row << "\n";
}

}  // namespace

void PairTable::add(const benchmark::BenchmarkReporter::Run& run) {
  const std::string name = run.benchmark_name(), world = name.substr(0, name.find("/from:"));
  const std::pair<size_t, size_t> ranks{std::stoul(part_of(name, "from")), std::stoul(part_of(name, "to"))};
  for (const PairFigure& figure : pair_figures) {
    const auto found = run.counters.find(figure.counter);
    Matrix& matrix = worlds_[world][figure.counter];
    if (found != run.counters.end()) matrix[ranks] = found->second * figure.scale;
  }
}

void PairTable::print(std::ostream& out) const {
  for (const auto& [name, figures] : worlds_)
    for (const PairFigure& figure : pair_figures)
      print_ranks(out, name, figure.title, figures.at(figure.counter), figure.decimals);
  for (const auto& [name, figures] : worlds_)
    for (const PairFigure& figure : pair_figures)
      print_hosts(out, name, figure.title, figures.at(figure.counter), figure.decimals, figure.low_is_bad);
}

void PairTable::print_ranks(std::ostream& out, const std::string& name, const std::string& figure, const Matrix& matrix,
                            int decimals) const {
  // A pair of ranks has the rate of either a memory copy or a link, so one of these matrices may be empty.
  if (matrix.empty()) return;
  const size_t world = std::stoul(part_of(name, "world"));
  Row titles = {"# rank", "host"};
  std::vector<Row> heads;
  for (size_t rank = 0; rank < world; ++rank) {
    titles.push_back(std::to_string(rank));
    heads.push_back({std::to_string(rank), hosts_.at(rank)});
  }
  std::vector<bool> right(titles.size(), true);
  right[1] = false;
  print_rows(out, name + ": " + figure + ", from the rank of the row to that of the column",
             rows_of(titles, heads, matrix, decimals), right);
}

// Prints a matrix of hosts: for each two hosts, the worst value of their pairs of ranks. Prints nothing if all ranks of
// the world are on one host.
void PairTable::print_hosts(std::ostream& out, const std::string& name, const std::string& figure, const Matrix& matrix,
                            int decimals, bool low_is_bad) const {
  const size_t world = std::stoul(part_of(name, "world"));
  Row titles = {"# host"};
  std::vector<Row> heads;
  std::vector<size_t> host_of_rank;
  for (size_t rank = 0; rank < world; ++rank) {
    const auto known = std::find(titles.begin() + 1, titles.end(), hosts_.at(rank));
    host_of_rank.push_back(static_cast<size_t>(known - titles.begin()) - 1);
    if (known != titles.end()) continue;
    titles.push_back(hosts_[rank]);
    heads.push_back({hosts_[rank]});
  }
  if (heads.size() < 2 || matrix.empty()) return;
  Matrix worst;
  for (const auto& [ranks, value] : matrix) {
    const auto [cell, is_new] = worst.try_emplace({host_of_rank[ranks.first], host_of_rank[ranks.second]}, value);
    if (!is_new) cell->second = low_is_bad ? std::min(cell->second, value) : std::max(cell->second, value);
  }
  std::vector<bool> right(titles.size(), true);
  right[0] = false;
  print_rows(out, name + ": " + figure + ", worst pair of ranks from the host of the row to that of the column",
             rows_of(titles, heads, worst, decimals), right);
}

}  // namespace dpbench::micro
