// Measures the peak performance of one replica's share of the machine: a matrix product for FLOP/s, and McCalpin's
// triad a[i] = b[i] + s c[i] for memory bandwidth. The measurement is short enough for every run.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/report/record/profile.h"

namespace dpbench {

// Returns the peak compute and memory rates for a dtype and device, the best of several tries. Measures in about 0.3 s,
// only once per process, dtype and device.
Peak measured_peak(at::ScalarType dtype, at::Device device);

// Returns the host name and the core numbers that this process may run on, separated by spaces.
std::string host_and_cores();
// True if each host has at least one core for each thread of the replicas on it, or has only one replica. processes:
// for each process, its host and its cores as in host_and_cores().
bool cores_for_all(const std::vector<std::string>& processes, int replicas_each, int threads_each);

}  // namespace dpbench
