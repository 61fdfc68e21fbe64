// Results as the users of nccl-tests know them: a block for each collective, backend and world, a line for each size.
#pragma once

#include <iosfwd>
#include <memory>
#include <ostream>

#include <benchmark/benchmark.h>

namespace dpbench::micro {

std::unique_ptr<benchmark::BenchmarkReporter> table_reporter(std::ostream& out);

}  // namespace dpbench::micro
