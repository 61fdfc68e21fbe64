#include "harness/conform/raw_collectives.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <sstream>

#include <ATen/ATen.h>

#include "harness/conform/evidence/exception_text.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "strategies/parts/compat.h"

namespace dpbench {
namespace {

// Tensor sizes to test: approximate number of elements over all ranks.
constexpr int64_t total_lengths[] = {1, 3001, 30001};
constexpr int64_t largest_number = 50;

// Calls collectives on one rank with numbers of one dtype and length, and compares each result. Every member function
// returns the first difference, or an empty string if the result is correct.
class RawCalls {
 public:
  RawCalls(c10d::ProcessGroup& group, at::Device device, at::ScalarType type, int64_t length)
      : group_(group), device_(device), type_(type), length_(length) {}

  std::string allreduce() const {
    Tensors mine = {numbers(group_.getRank())};
    group_.allreduce(mine)->wait();
    return compared(mine[0], sum_of_all(length_));
  }

  std::string broadcast() const {
    std::string found;
    for (const int root : {0, group_.getSize() - 1}) {
      Tensors mine = {numbers(group_.getRank())};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      group_.broadcast(mine, options)->wait();
      if (found.empty()) found = compared(mine[0], numbers(root));
    }
    return found;
  }

  std::string allgather() const {
    Tensors mine = {numbers(group_.getRank())}, due;
    std::vector<Tensors> all(1);
    for (int rank = 0; rank < group_.getSize(); ++rank) {
      due.push_back(numbers(rank));
      all[0].push_back(at::zeros_like(mine[0]));
    }
    group_.allgather(all, mine)->wait();
    return compared(at::cat(all[0]), at::cat(due));
  }

  std::string reduce_scatter() const {
    at::Tensor whole = numbers(group_.getRank(), length_ * group_.getSize());
    at::Tensor piece = at::zeros({length_}, whole.options());
    reduce_scatter_flat(group_, piece, whole);
    return compared(piece, sum_of_all(whole.numel()).narrow(0, group_.getRank() * length_, length_));
  }

 private:
  using Tensors = std::vector<at::Tensor>;

  // Returns the numbers that a rank contributes. In float32 their sums are exact. In int64 they are multiples of a
  // large odd number, and float64 cannot represent most of them.
  at::Tensor numbers(int rank, int64_t length) const {
    const at::Tensor small = (at::arange(length) * 7 + rank * 13).remainder(2 * largest_number + 1) - largest_number;
    const int64_t large = std::numeric_limits<int64_t>::max() / (largest_number * group_.getSize()) | 1;
    return (type_ == at::kLong ? small * (large - 2) : small).to(device_, type_);
  }
  at::Tensor numbers(int rank) const { return numbers(rank, length_); }

  at::Tensor sum_of_all(int64_t length) const {
    at::Tensor sum = numbers(0, length);
    for (int rank = 1; rank < group_.getSize(); ++rank) sum += numbers(rank, length);
    return sum;
  }

  std::string compared(const at::Tensor& found, const at::Tensor& due) const {
    if (found.equal(due)) return "";
    return first_difference(found, due) + ", of " + std::to_string(length_) + ' ' + c10::toString(type_);
  }

  c10d::ProcessGroup& group_;
  at::Device device_;
  at::ScalarType type_;
  int64_t length_;
};

struct RawCheck {
  std::string name;
  std::string (RawCalls::*call)() const;
};
const RawCheck raw_checks[] = {{raw_collective_checks[0], &RawCalls::allreduce},
                               {raw_collective_checks[1], &RawCalls::broadcast},
                               {raw_collective_checks[2], &RawCalls::allgather},
                               {raw_collective_checks[3], &RawCalls::reduce_scatter}};

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Returns this rank's result of a check: an empty string if correct, "- reason" if the backend lacks the collective,
// otherwise the first difference.
std::string run_check(const RawCheck& check, const CheckRequest& request) {
  // The first difference. The remaining collectives are still called after it, because the other ranks wait for this
  // rank.
  std::string found;
  try {
    for (const auto type : {at::kFloat, at::kLong})
      for (const int64_t length : total_lengths) {
        const auto wrong =
            (RawCalls(*request.mesh.group(), request.devices.at(0), type, length / request.world | 1).*check.call)();
        if (found.empty()) found = wrong;
      }
  } catch (const c10::Error& error) {
    if (!lacks_operation(error)) throw;
    if (found.empty()) found = "- " + std::string(error.what_without_backtrace());
  }
  return found;
}

std::string run_all_checks(const CheckRequest& request) {
  const at::NoGradGuard no_grad;
  std::string lines;
  try {
    for (const RawCheck& check : raw_checks) lines += in_one_line(run_check(check, request)) + "\n";
  } catch (const c10::Error& error) {
    if (out_of_memory(error)) throw;
    lines += in_one_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (out_of_memory(error)) throw;
    lines += in_one_line(error.what());
  }
  return lines;
}

}  // namespace

void judge_raw_collectives(const CheckRequest& request, const std::string& key, Rows& rows) {
  const std::string compared =
      "the backend's results on integers in float32 and int64 with the exact results, bit for bit";
  const auto texts = gather_texts(*request.store, key, request.rank, request.world, run_all_checks(request));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    std::istringstream lines(texts[rank]);
    for (const RawCheck& check : raw_checks) {
      std::string found;
      const bool came_so_far = static_cast<bool>(std::getline(lines, found)) && !lines.eof();
      if (!came_so_far) return rows.completed(false, "rank " + std::to_string(rank) + ", " + check.name + ": " + found);
      if (found.starts_with("- "))
        rows.skipped(check.name, compared, found.substr(2));
      else
        rows.judged(check.name, compared, found.empty(), found + ", rank " + std::to_string(rank),
                    "a bug of the backend: no strategy is involved");
    }
  }
}

}  // namespace dpbench
