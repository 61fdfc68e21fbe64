// Computes each channel's mean and sum of squared deviations for a batch of images. Additions of one channel follow
// torch's order, for the same bits. Several channels are computed at a time, so that additions of one need not wait for
// each other. Does not depend on torch.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Images {
  const float* values;  // pixel values as an array of shape [samples, channels, pixel positions]
  int64_t rows, channels, places;
};

// A function that computes, for channels begin .. end - 1, the means and the sums of squared deviations from the means.
using ChannelMoments = void (*)(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums);
// Returns the functions of type ChannelMoments that this processor supports, fastest first. All give the same bits.
const std::vector<ChannelMoments>& channel_moments();

}  // namespace dpbench
