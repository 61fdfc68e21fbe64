// What one replica's part of the machine can do at most: a matrix product, and a[i] = b[i] + s c[i] through memory
// (McCalpin's triad). Short, so that it can stand in every run.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/report/record/profile.h"

namespace dpbench {

// Measured once per process and dtype; the best of several tries. Takes about 0.3 s.
Peak measured_peak(at::ScalarType dtype, at::Device device);

// This process's host and the numbers of the cores that it may use.
std::string host_and_cores();
// Whether on each host the processes (each told by host_and_cores) may use a core for every thread of every replica
// together; a replica that is alone on its host shares with none.
bool cores_for_all(const std::vector<std::string>& processes, int replicas_each, int threads_each);

}  // namespace dpbench
