// Formats the output lines of the tutorial programs that `dpbench train` reproduces. Does not use torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/base/kinds.h"

namespace dpbench {

struct DeviceCount {
  Device device = Device::cpu;
  int world = 1;
};

// The loss of one epoch over all ranks, in the forms that tutorial programs print.
struct EpochLoss {
  int64_t epoch = 0, epochs = 1, steps = 1;
  // Total: sum over ranks of the losses of all their steps. Mean: mean over ranks of each rank's mean loss.
  double total = 0, mean = 0;
};

// Returns the first lines of the PyTorch DataParallel tutorial: "Let's use 4 devices!"; empty for one device.
std::vector<std::string> tutorial_greeting(const DeviceCount& count);
// Returns the tutorial's line for one replica, e.g. "In Model: input size [8, 5] output size [8, 2]".
std::string in_model_line(std::span<const int64_t> input, std::span<const int64_t> output);
std::string outside_line(std::span<const int64_t> input, std::span<const int64_t> output);

// Returns the epoch line "  0: 1234.5678" of the memo, the training program that the mnist-mlp workload follows.
std::string memo_line(const EpochLoss& loss);

// Returns the first lines that the program of a Keras guide to several GPUs prints, "Running on 8 GPUs" and "x_train
// shape: (60000, 28, 28, 1)". guide_line() returns the program's epoch line, "Epoch 1/2, Loss: 0.25".
std::vector<std::string> guide_greeting(const DeviceCount& count, int64_t samples, std::span<const int64_t> input);
std::string guide_line(const EpochLoss& loss);

// Formats a number like Python's repr(): the shortest text that parses to the same value.
std::string python_float(double value);

}  // namespace dpbench
