// Guards against a race in MKL's vector functions, which LibTorch calls for tanh, exp, sqrt and others: each is bound
// to its implementation by its first call, and of two threads that make it at once, one may compute with errors of a
// thousand units in the last place (pytorch issue 188792, MKL 2024.2).
#pragma once

namespace dpbench {

// Calls each function once, so no later call is the first. A program calls it before it computes with several threads.
void bind_vector_math();

}  // namespace dpbench
