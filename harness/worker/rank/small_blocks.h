// Memory of small CPU tensors, kept for the next of its size.
#pragma once

namespace dpbench {

// For all threads, from now on. malloc finds aligned memory by cutting pieces off chunks that it joins again later, a
// tenth of a step of random-linear.
void keep_small_blocks();

}  // namespace dpbench
