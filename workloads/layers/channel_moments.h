// Computes each channel's mean and sum of squared deviations for a batch of images. It adds in torch's order, but
// several channels at a time, which hides the latency of dependent additions. Does not depend on torch.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Images {
  const float* values;  // pixel values as an array of shape [samples, channels, pixel positions]
  int64_t rows, channels, places;
};

// A function that computes the means of channels [begin, end) and the sums of squared deviations from them.
using ChannelMoments = void (*)(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums);
// Returns the functions that this processor supports, fastest first. All give the same bits.
const std::vector<ChannelMoments>& channel_moments();

}  // namespace dpbench
