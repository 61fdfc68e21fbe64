#include "workloads/base/vector_math.h"

#include <ATen/ATen.h>

namespace dpbench {

void bind_vector_math() {
  static const bool bound = [] {
    using Function = at::Tensor (*)(const at::Tensor&);
    const Function functions[] = {at::acos, at::asin, at::atan,  at::cos, at::erf,  at::erfc, at::erfinv, at::exp,
                                  at::log,  at::log2, at::log10, at::sin, at::sqrt, at::tan,  at::tanh,   at::trunc};
    for (const auto dtype : {at::kFloat, at::kDouble})
      for (const Function function : functions) function(at::full({16}, 0.5, dtype));
    return true;
  }();
  static_cast<void>(bound);
}

}  // namespace dpbench
