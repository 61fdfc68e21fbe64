// The moments of each channel of a batch of images, added up in the very order in which torch does, several channels at
// a time: its own loop waits for each sum before it adds the next number. Knows no torch.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

struct Images {
  const float* values;  // [rows, channels, places]
  int64_t rows, channels, places;
};

// Of the channels from begin to before end: their means, and the sums of the squares of what differs from these.
using ChannelMoments = void (*)(const Images& images, int64_t begin, int64_t end, float* means, float* square_sums);
// All that this processor can run give the same bits; the first is the fastest.
const std::vector<ChannelMoments>& channel_moments();

}  // namespace dpbench
