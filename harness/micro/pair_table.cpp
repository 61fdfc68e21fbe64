#include "harness/micro/pair_table.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace dpbench::micro {
namespace {

struct PairFigure {
  const char *counter, *title;
  double scale;
  int decimals;
};
constexpr PairFigure pair_figures[] = {{"bandwidth_gb_s", "bandwidth (GB/s)", 1, 3},
                                       {"of_copy", "bandwidth (% of a copy by both ranks at once)", 100, 0},
                                       {"latency_us", "latency (us), half a round trip of 4 B", 1, 2},
                                       {"wrong", "wrong elements", 1, 0}};

}  // namespace

void PairTable::add(const benchmark::BenchmarkReporter::Run& run) {
  const std::string name = run.benchmark_name();
  const std::pair ranks{std::stoi(part_of(name, "from")), std::stoi(part_of(name, "to"))};
  worlds_[name.substr(0, name.find("/from:"))][ranks] = run.counters;
}

void PairTable::print(std::ostream& out) const {
  size_t width = 4;
  for (const std::string& host : hosts_) width = std::max(width, host.size());
  const auto write = [&out]<class... Values>(const char* form, Values... values) {
    char text[400];
    std::snprintf(text, sizeof text, form, values...);
    out << text;
  };
  for (const auto& [name, cells] : worlds_)
    for (const PairFigure& figure : pair_figures) {
      const int world = std::stoi(part_of(name, "world"));
      out << "\n# " << name << ": " << figure.title << ", from the rank of the row to that of the column\n";
      write("# rank  %-*s", static_cast<int>(width), "host");
      for (int to = 0; to < world; ++to) write("  %8d", to);
      for (int from = 0; from < world; ++from) {
        write("\n%6d  %-*s", from, static_cast<int>(width), hosts_.at(static_cast<size_t>(from)).c_str());
        for (int to = 0; to < world; ++to)
          if (const auto cell = cells.find({from, to}); cell == cells.end())
            write("  %8s", "-");
          else
            write("  %8.*f", figure.decimals, cell->second.at(figure.counter) * figure.scale);
      }
      out << "\n";
    }
}

}  // namespace dpbench::micro
