// Mean and sum of squared deviations of each channel of a batch of images. Adds in torch's order, but several channels
// at a time, which hides the latency of the dependent additions. No torch dependency.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Images {
  const float* values;  // [rows, channels, places]
  int64_t rows, channels, places;
};

// Computes the means of channels [begin, end) and the sums of squared deviations from them.
using ChannelMoments = void (*)(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums);
// Returns the implementations this processor supports, fastest first. All give the same bits.
const std::vector<ChannelMoments>& channel_moments();

}  // namespace dpbench
