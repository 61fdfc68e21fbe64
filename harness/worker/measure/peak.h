// Peak performance of one replica's share of the machine: a matrix product, and McCalpin's triad a[i] = b[i] + s c[i]
// for memory bandwidth. Short enough for every run.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/report/record/profile.h"

namespace dpbench {

// Measures once per process, dtype and device; takes the best of several tries. Takes about 0.3 s.
Peak measured_peak(at::ScalarType dtype, at::Device device);

// Host name and allowed core numbers of this process, separated by spaces.
std::string host_and_cores();
// True if every host has at least one core per thread of its replicas, or a single replica. processes: host_and_cores()
// of each process.
bool cores_for_all(const std::vector<std::string>& processes, int replicas_each, int threads_each);

}  // namespace dpbench
