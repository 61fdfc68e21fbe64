// Prints benchmark results of collectives in the format of nccl-tests: a table for each collective, backend and world
// (number of ranks), with a line for each tensor size. Pairs of ranks get a matrix, other benchmarks a line with the
// time and counters.
#pragma once

#include <iosfwd>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace dpbench::micro {

// hosts: name of each rank's host.
std::unique_ptr<benchmark::BenchmarkReporter> table_reporter(std::ostream& out, std::vector<std::string> hosts);

}  // namespace dpbench::micro
