// Prints benchmark results of collectives in the format of nccl-tests: a table for each collective, backend and world
// (number of ranks), with a line for each tensor size. Other benchmarks get a line with the time and counters.
#pragma once

#include <iosfwd>
#include <memory>
#include <ostream>

#include <benchmark/benchmark.h>

namespace dpbench::micro {

std::unique_ptr<benchmark::BenchmarkReporter> table_reporter(std::ostream& out);

}  // namespace dpbench::micro
