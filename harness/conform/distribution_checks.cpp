#include "harness/conform/distribution_checks.h"

#include <algorithm>
#include <exception>
#include <memory>

#include <ATen/ATen.h>

#include "harness/conform/evidence/exception_text.h"
#include "harness/conform/judges/judge_sampling.h"
#include "workloads/base/error.h"
#include "workloads/data/sampler.h"

namespace dpbench {
namespace {

// A model that shows how a batch was split: each output row holds the sample's id and the size of the batch that the
// model received.
class Witness : public Model {
 public:
  Witness() : scale_(register_parameter("scale", at::ones({1}))) {}
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    const auto ids = context.ids.to(input.device(), input.scalar_type()).unsqueeze(1);
    return at::cat({input * scale_, ids, at::full_like(ids, static_cast<double>(input.size(0)))}, 1);
  }

 private:
  at::Tensor scale_;
};

class WitnessWorkload : public Workload {
 public:
  int64_t samples() const override { return 64; }
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Witness>(); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override { return output.select(1, 0).mean(); }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override {
    return {ids.to(at::kFloat).unsqueeze(1), at::zeros({ids.size(0), 1}), ids};
  }
};

std::string table(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) {
    if (!text.empty()) text += ",";
    text += std::to_string(size);
  }
  return text;
}

// Returns each replica's batch size, which the Witness model writes into a column of its output.
std::vector<int64_t> pieces_seen(const at::Tensor& output) {
  std::vector<int64_t> sizes;
  for (int64_t row = 0; row < output.size(0);) {
    sizes.push_back(output[row][2].item<int64_t>());
    row += std::max<int64_t>(sizes.back(), 1);
  }
  return sizes;
}

constexpr char pieces_compared[] =
    "split of batches of 30 and 10 samples between replicas, and the order of the output";

void judge_pieces_of_batches(const CheckRequest& request, Rows& rows) {
  const WitnessWorkload workload;
  const auto strategy =
      request.strategy.make({.workload = workload,
                             .devices = request.devices,
                             .dtype = at::kFloat,
                             .params = Params(request.strategy.params, request.params, request.strategy.name),
                             .clip_norm = {}});
  Phases phases;
  int64_t step = 0;
  // Batch sizes of the DataParallel tutorial: 100 samples in batches of 30 leave a last batch of 10.
  for (const int64_t batch : {30, 10}) {
    const Batch micro[] = {workload.batch(at::arange(batch))};
    const at::Tensor output = strategy->step(step++, micro, phases).whole_output().detach().to(at::kCPU);
    const auto expected = chunk_sizes(batch, request.world), found = pieces_seen(output);
    rows.judged("chunk-tables", pieces_compared, expected == found,
                std::to_string(batch) + " samples: expected " + table(expected) + ", found " + table(found),
                "the batch is not split like torch.chunk");
    rows.judged("chunk-tables", pieces_compared, output.select(1, 1).equal(at::arange(batch).to(output.scalar_type())),
                std::to_string(batch) + " samples: the output is not in the order of the batch",
                "outputs are gathered in the order in which replicas finish");
  }
}

}  // namespace

// Runs the check chunk-tables with the Witness model, which outputs batch sizes. A strategy may refuse this model
// though it runs the requested workload; then a skipped or failed row is added.
void judge_distribution(const CheckRequest& request, Rows& rows) {
  if (request.strategy.parallelism != Parallelism::replicas) return;
  const auto refused = [&](const std::exception& error) {
    rows.skipped("chunk-tables", pieces_compared, std::string("refused: ") + error.what());
  };
  const auto threw = [&](const std::string& why) {
    rows.completed(false, "batches of 30 and 10 samples for chunk-tables: " + why);
  };
  try {
    judge_pieces_of_batches(request, rows);
  } catch (const UsageError& error) {
    refused(error);
  } catch (const Unavailable& error) {
    refused(error);
  } catch (const std::exception& error) {
    if (out_of_memory(error)) throw;
    threw(message_of(error));
  } catch (...) {
    threw("an exception that is not a std::exception");
  }
}

void judge_sampler(const CheckRequest& request, Rows& rows) {
  if (request.strategy.parallelism != Parallelism::ranks) return;
  constexpr int64_t samples = 211;  // the number of samples is prime, so no world size divides it
  for (const bool drop_last : {false, true}) {
    const auto dealt = [&](int64_t epoch, int rank) {
      DistributedSampler sampler(
          {.samples = samples, .world = request.world, .rank = rank, .seed = request.seed, .drop_last = drop_last});
      sampler.set_epoch(epoch);
      return sampler.indices();
    };
    judge_sampling(
        {samples, request.world, drop_last, dealt, "dpbench's DistributedSampler, independent of the strategy"}, rows);
  }
}

}  // namespace dpbench
