// Prints the measurements of pairs of ranks as matrices: a row for each sender, a column for each receiver. If the
// ranks are on several hosts, a matrix of hosts follows: for each two hosts, the worst value of their pairs of ranks.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

namespace dpbench::micro {

// Returns the value of a key in a benchmark's name: "shm" for "backend". Returns `otherwise` if the key is missing.
inline std::string part_of(const std::string& name, const std::string& key, const std::string& otherwise = "") {
  const size_t at = name.find("/" + key + ":");
  if (at == std::string::npos) return otherwise;
  const size_t begin = at + key.size() + 2;
  return name.substr(begin, name.find('/', begin) - begin);
}

class PairTable {
 public:
  // A measured figure of each pair of sender and receiver. The key has their rank numbers, or the numbers of their
  // hosts.
  using Matrix = std::map<std::pair<size_t, size_t>, double>;

  explicit PairTable(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  void add(const benchmark::BenchmarkReporter::Run& run);
  void print(std::ostream& out) const;

 private:
  void print_ranks(std::ostream& out, const std::string& name, const std::string& figure, const Matrix& matrix,
                   int decimals) const;
  void print_hosts(std::ostream& out, const std::string& name, const std::string& figure, const Matrix& matrix,
                   int decimals, bool low_is_bad) const;

  std::vector<std::string> hosts_;  // name of each rank's host
  // Matrices by backend and world, then by the name of the figure.
  std::map<std::string, std::map<std::string, Matrix>> worlds_;
};

}  // namespace dpbench::micro
