#include "harness/micro/copy_rate.h"

#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include "harness/report/stats/stats.h"

namespace dpbench::micro {
namespace {

void copy_bytes(const Team& team, const at::Tensor& to, const at::Tensor& from) {
  if (team.device().is_cpu()) {
    std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  } else {
    to.copy_(from);
    team.synchronize();
  }
}

}  // namespace

double copy_gb_s(Team& team, bool member, int members, int64_t bytes) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(team.device());
  const int64_t size = member ? bytes : 0;
  const at::Tensor from = at::full({size}, 1, options), to = at::full({size}, 2, options);
  copy_bytes(team, to, from);
  team.barrier();
  std::vector<double> seconds;
  for (int64_t i = 0; i < iterations_of(bytes); ++i) seconds.push_back(seconds_of([&] { copy_bytes(team, to, from); }));
  const double mean = team.sum(member ? median(seconds) : 0) / members;
  return static_cast<double>(bytes) / mean * 1e-9;
}

}  // namespace dpbench::micro
