// Protects against a race in MKL's vector functions (pytorch issue 188792, MKL 2024.2), with which LibTorch computes
// tanh, exp, sqrt and others. The first call of a function selects its implementation. If two threads make first calls
// at once, one of them may get results with errors of a thousand units in the last place.
#pragma once

namespace dpbench {

// Calls each of MKL's vector functions once, so that no later call is the first. A program calls bind_vector_math()
// before it computes with several threads.
void bind_vector_math();

}  // namespace dpbench
