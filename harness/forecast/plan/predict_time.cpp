#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "harness/forecast/exposed_communication.h"
#include "harness/forecast/plan/group_link.h"
#include "harness/forecast/plan/predict.h"
#include "strategies/schedule/simulate.h"

namespace dpbench::forecast {
namespace {

// Time of a forward or backward pass, split into computing and communication by mesh axis.
struct Spent {
  double computing = 0, tensor = 0, context = 0, data = 0;

  double all() const { return computing + tensor + context + data; }
  Spent& operator+=(const Spent& other) {
    computing += other.computing, tensor += other.tensor, context += other.context, data += other.data;
    return *this;
  }
  Spent operator*(double times) const { return {computing * times, tensor * times, context * times, data * times}; }
};

// A block of the model. One collective gathers all its parameters (FSDP and ZeRO 2), another reduces all its gradients
// (FSDP, ZeRO 2 and DDP).
struct Unit {
  Spent forward, backward;
  // gather_s: time to gather the parameters before a pass. again_s: time to gather them a second time, for the backward
  // pass, without the parameters that stay gathered.
  double gather_s = 0, again_s = 0, reduce_s = 0;
};

// The links between the ranks along each axis of a layout's mesh.
struct Links {
  GroupLink tensor, context, pipe, replicas, shards;
};

// Times and sizes of the model's blocks on one rank.
class BlockTimes {
 public:
  BlockTimes(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const Machine& machine,
             const Links& links, double sharing)
      : shape_(shape),
        precision_(precision),
        layout_(layout),
        machine_(machine),
        links_(links),
        sharing_(sharing),
        layer_flop_(work(gpt::Part::layer).forward.flop),
        embed_(unit_of(gpt::Part::embed)),
        layer_(unit_of(gpt::Part::layer)),
        norm_(unit_of(gpt::Part::norm)),
        head_(unit_of(gpt::Part::head)) {}

  std::vector<Unit> units_of(const StageBlocks& blocks) const {
    std::vector<Unit> units;
    if (blocks.embed) units.push_back(embed_);
    units.insert(units.end(), static_cast<size_t>(blocks.layers), layer_);
    if (blocks.norm) units.push_back(norm_);
    if (blocks.head) units.push_back(head_);
    return units;
  }

  double parameters_of(const StageBlocks& blocks) const {
    double sum = static_cast<double>(blocks.layers) * parameters(gpt::Part::layer);
    if (blocks.embed) sum += parameters(gpt::Part::embed);
    if (blocks.norm) sum += parameters(gpt::Part::norm);
    if (blocks.head) sum += shape_.tied && !blocks.embed ? parameters(gpt::Part::embed) : parameters(gpt::Part::head);
    return sum;
  }

  double stored_bytes() const { return forecast::stored_bytes(precision_); }
  // Returns the bytes of gradients that a reduction sends for parameters of `stored` bytes.
  double reduced(double stored) const { return layout_.narrow_gradients ? stored / 2 : stored; }
  // Returns the bytes of one activation of the residual stream. It is in float32 under autocast, unless the embedding
  // is in bfloat16.
  double stream_bytes() const { return activation_bytes(layout_.narrow || layout_.narrow_activations); }

 private:
  double parameters(gpt::Part part) const { return static_cast<double>(gpt::parameters(shape_, part, layout_.cut())); }
  BlockWork work(gpt::Part part) const {
    return work_of(shape_, part, layout_.cut(), precision_, static_cast<double>(layout_.rows));
  }
  double tokens() const {
    return static_cast<double>(layout_.rows) * static_cast<double>(shape_.seq) / layout_.size("cp");
  }

  // Returns the bytes of an activation of the width of the residual stream. narrow: true if it is in bfloat16 under
  // autocast.
  double activation_bytes(bool narrow) const {
    const double size = narrow && precision_ == gpt::Precision::bfloat16 ? 2 : stored_bytes();
    return tokens() * static_cast<double>(shape_.hidden) * size;
  }

  // Returns the numbers of allreduces over the axis tp in a block's forward pass and in its backward pass.
  static std::pair<int, int> tensor_sums(gpt::Part part) {
    switch (part) {
      case gpt::Part::embed:
        return {1, 0};
      case gpt::Part::layer:
        return {2, 2};
      case gpt::Part::head:
        return {0, 1};
      default:
        return {0, 0};
    }
  }

  // Returns the time in which a rank sends tensors to the next rank on the axis cp.
  double hop_s(double bytes) const {
    return links_.context.ranks() == 1 ? 0 : Terms{1, bytes}.seconds(links_.context.slowest());
  }

  // Returns the time of ring attention's hops that computation does not hide. In each hop a rank sends its keys and
  // values to the next rank, while it computes the attention over one rank's keys. bytes: size of the tensors that a
  // rank sends in one hop.
  double hops_s(double compute_s, double bytes) const {
    const int ranks = links_.context.ranks();
    const std::vector<Computation> hop{{.compute_s = compute_s / ranks}, {.gather_s = hop_s(bytes)}};
    return (ranks - 1) * exposed_communication_s(hop, machine_.overlap);
  }

  // Returns the bytes of a block's parameters that stay gathered between its forward and its backward pass. Only the
  // head's parameters do; if the embedding is tied, they belong to the embedding's block.
  double kept_bytes(gpt::Part part) const {
    gpt::Shape untied = shape_;
    untied.tied = false;
    const bool keeps = part == gpt::Part::head ? !shape_.tied : part == gpt::Part::embed && shape_.tied;
    return keeps ? stored_bytes() * static_cast<double>(gpt::parameters(untied, gpt::Part::head, layout_.cut())) : 0;
  }

  Unit unit_of(gpt::Part part) const {
    const BlockWork done = work(part);
    const auto [forward_sums, backward_sums] = tensor_sums(part);
    // The forward pass of a layer sums products, which autocast computes in bfloat16. The other sums are of activations
    // of the residual stream and of their gradients.
    const double stream_s = links_.tensor.seconds("allreduce", stream_bytes());
    const double product_s = links_.tensor.seconds("allreduce", activation_bytes(/*narrow=*/true));
    Unit unit;
    unit.forward = {.computing = sharing_ * machine_.speed.seconds(done.forward, layer_flop_),
                    .tensor = forward_sums * (part == gpt::Part::layer ? product_s : stream_s)};
    unit.backward = {.computing = sharing_ * machine_.speed.seconds(done.backward, layer_flop_),
                     .tensor = backward_sums * stream_s};
    if (part == gpt::Part::layer) {
      // Llama's rotation returns float32, so keys travel in float32, and values with them. Ring attention adds the
      // gradients of both in float32.
      const bool narrow_keys = layout_.narrow_activations || shape_.style == gpt::Style::gpt2;
      const double heads =
          2 * static_cast<double>(shape_.kv_heads) / static_cast<double>(shape_.heads * layout_.size("tp"));
      const double kv = heads * activation_bytes(narrow_keys),
                   slopes = heads * activation_bytes(layout_.narrow_activations);
      unit.forward.context = hops_s(attention_s(1), kv);
      // In the backward pass, ring attention sends keys, values and the gradients of both. After the last block, the
      // gradients travel one hop further, to the rank that has their keys.
      unit.backward.context = hops_s(attention_s(2), kv + slopes) + hop_s(slopes);
    }
    if (layout_.recompute > 0 && part != gpt::Part::head) unit.backward += unit.forward;
    const double bytes = parameters(part) * stored_bytes();
    const bool gathers = layout_.sharding == Sharding::parameters || layout_.sharding == Sharding::gradients;
    if (gathers) {
      const double again = bytes - kept_bytes(part), size = layout_.narrow ? 0.5 : 1;
      unit.gather_s = links_.shards.seconds("allgather", size * bytes);
      unit.again_s = again > 0 ? links_.shards.seconds("allgather", size * again) : 0;
      unit.reduce_s = links_.shards.seconds("reduce_scatter", reduced(bytes));
    } else if (layout_.overlapped) {
      unit.reduce_s = links_.replicas.seconds("allreduce", reduced(bytes));
    }
    return unit;
  }

  double attention_s(double passes) const {
    const double flop =
        4 * tokens() * static_cast<double>(shape_.seq) * static_cast<double>(shape_.hidden) / layout_.size("tp");
    return sharing_ * passes * machine_.speed.seconds({flop, 0}, layer_flop_);
  }

  const gpt::Shape& shape_;
  gpt::Precision precision_;
  const Layout& layout_;
  const Machine& machine_;
  const Links& links_;
  double sharing_;  // factor by which computing slows down because ranks share cores; 1: ranks share none
  double layer_flop_;
  Unit embed_, layer_, norm_, head_;
};

class Timing {
 public:
  Timing(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const Machine& machine)
      : shape_(shape),
        layout_(layout),
        machine_(machine),
        sharing_(slowdown_of(ranks_of(layout.mesh), machine.threads, machine.cores)),
        links_{.tensor = group_link("tp"),
               .context = group_link("cp"),
               .pipe = group_link("pp"),
               .replicas = group_link("dp"),
               .shards = group_link(layout.size("shard") > 1 ? "shard" : "dp")},
        blocks_(shape, precision, layout, machine, links_, sharing_) {}

  std::optional<Time> step(double most_s) {
    std::vector<Stage> stages;
    for (const StageBlocks& blocks : stages_of(shape_, layout_)) stages.push_back(stage_of(blocks));
    if (!layout_.schedule) return with_end(alone(stages.front()));
    if (most_s < std::numeric_limits<double>::infinity() && least_s(stages) > most_s) return std::nullopt;
    const pipeline::Schedule schedule = schedule_of(layout_, layout_.micro_batches);
    return with_end(pipelined(stages, schedule, simulate_spans(schedule, costs_of(stages, schedule)).makespan));
  }

 private:
  struct Stage {
    Spent forward, backward;  // times of the stage for one micro-batch
    // Communication over the data axes once per step: gathering parameters that stay gathered, and reducing the
    // gradients of all micro-batches in the last backward pass.
    double last_data = 0;
    double parameters = 0;
    Spent both() const {
      Spent sum = forward;
      sum += backward;
      return sum;
    }
  };

  // Returns the time for which a forward or backward pass over the model's blocks waits for collectives over data axes.
  // gathers: each block's parameters are gathered while the block before computes. reduces: each block's gradients are
  // reduced after its computation.
  double data_wait(const std::vector<Unit>& units, bool backward, bool gathers, bool reduces) const {
    std::vector<Computation> pass;
    for (const Unit& unit : units)
      pass.push_back({.gather_s = gathers ? (backward ? unit.again_s : unit.gather_s) : 0,
                      .compute_s = (backward ? unit.backward : unit.forward).all(),
                      .reduce_s = reduces ? unit.reduce_s : 0});
    if (backward) std::ranges::reverse(pass);
    return exposed_communication_s(pass, machine_.overlap);
  }

  Stage stage_of(const StageBlocks& blocks) const {
    const std::vector<Unit> units = blocks_.units_of(blocks);
    Stage stage;
    for (const Unit& unit : units) stage.forward += unit.forward, stage.backward += unit.backward;
    // On a mesh with the axis pp, the option reshard=off keeps parameters gathered for the whole step.
    const bool kept = layout_.schedule && !layout_.reshard;
    const bool each_pass = layout_.sharding == Sharding::parameters && !kept;
    const bool reduces = layout_.overlapped, each = reduces && layout_.reduces_each();
    stage.forward.data = each_pass ? data_wait(units, false, true, false) : 0;
    const bool again = each_pass && layout_.reshard;
    stage.backward.data = data_wait(units, true, again, each);
    stage.last_data = data_wait(units, true, again, reduces) - stage.backward.data;
    // Parameters that stay gathered, and parameters that ZeRO 2 has updated, are gathered once per step.
    if (kept || layout_.sharding == Sharding::gradients) stage.last_data += data_wait(units, false, true, false);
    stage.parameters = blocks_.parameters_of(blocks);
    return stage;
  }

  Time alone(const Stage& stage) {
    const auto micros = static_cast<double>(layout_.micro_batches);
    parameters_ = stage.parameters;
    Time time;
    const Spent spent = stage.both() * micros;
    time.computing_s = spent.computing, time.tensor_s = spent.tensor, time.context_s = spent.context;
    time.data_s = spent.data + stage.last_data;
    return time;
  }

  // Returns the costs of the pipeline stages as if each rank had its own cores: the mean costs of a stage, and for each
  // stage the ratio of its cost to the mean.
  pipeline::Costs costs_of(const std::vector<Stage>& stages, const pipeline::Schedule& schedule) const {
    const auto count = static_cast<double>(stages.size());
    double forward = 0, both = 0;
    for (const Stage& stage : stages) forward += stage.forward.all() / count, both += stage.both().all() / count;
    pipeline::Costs costs{.forward = forward / sharing_,
                          .input_gradient = (both - forward) / sharing_ / 2,
                          .weight_gradient = (both - forward) / sharing_ / 2,
                          .bytes = blocks_.stream_bytes() / (layout_.sequence ? layout_.size("tp") : 1)};
    for (const Stage& stage : stages) costs.stage_factors.push_back(stage.both().all() / both);
    for (size_t i = 1; i < stages.size(); ++i) {
      const int from = schedule.rank_of[i - 1], to = schedule.rank_of[i];
      const Link& link = links_.pipe.between(from, to);
      costs.links[{from, to}] = costs.links[{to, from}] = {link.latency_s, link.bytes_per_s};
    }
    return costs;
  }

  // Returns a lower bound of the time of a pipelined step, from the simulation of a single micro-batch: each rank
  // computes for all micro-batches, after the forward pass of the first one through the stages before the rank's first
  // stage, and before the backward pass of the last one through the same stages. Returns 0 if the schedule splits
  // backward passes, because a rank may then end with weight gradients.
  double least_s(const std::vector<Stage>& stages) {
    constexpr double rounding = 1e-9;
    const pipeline::Schedule schedule = schedule_of(layout_, 1);
    if (splits_backward(schedule)) return 0;
    const pipeline::Simulation single = simulate_spans(schedule, costs_of(stages, schedule));
    double makespan = 0;
    for (const pipeline::RankTimes& rank : single.ranks)
      makespan = std::max(
          makespan, rank.first + static_cast<double>(layout_.micro_batches) * rank.busy + single.makespan - rank.last);
    return with_end(pipelined(stages, schedule, makespan)).step_s() * (1 - rounding);
  }

  // Returns the times of the parts of a pipelined step, for the rank that is busy longest. alone_s: time of the passes
  // as if each rank had its own cores.
  Time pipelined(const std::vector<Stage>& stages, const pipeline::Schedule& schedule, double alone_s) {
    const auto micros = static_cast<double>(layout_.micro_batches);
    std::vector<Spent> by_rank(schedule.ranks.size());
    std::vector<double> parameters(schedule.ranks.size()), last(schedule.ranks.size());
    for (size_t i = 0; i < stages.size(); ++i) {
      const auto rank = static_cast<size_t>(schedule.rank_of[i]);
      by_rank[rank] += stages[i].both() * micros;
      parameters[rank] += stages[i].parameters;
      last[rank] += stages[i].last_data;
    }
    // If ranks share cores, a waiting rank leaves its cores to the others. A step then takes at least the mean busy
    // time of the ranks.
    double shared_s = 0;
    for (const Spent& one : by_rank) shared_s += one.all() / static_cast<double>(by_rank.size());
    const double makespan = std::max(alone_s, shared_s);
    const Spent& longest = *std::ranges::max_element(by_rank, {}, [](const Spent& one) { return one.all(); });
    // The slowdown by shared cores assumes that all ranks are busy at once. In a pipeline fewer are, so a rank's busy
    // time may exceed the step time; it is then scaled down to the step time.
    const double scale = std::min(1.0, makespan / longest.all());
    parameters_ = *std::ranges::max_element(parameters);
    Time time;
    time.computing_s = longest.computing * scale, time.tensor_s = longest.tensor * scale;
    time.context_s = longest.context * scale;
    time.data_s = longest.data * scale + *std::ranges::max_element(last);
    time.bubble_s = makespan - longest.all() * scale + tied_s(schedule.rank_of.front(), schedule.rank_of.back());
    return time;
  }

  // Returns the time in which the first and the last stage exchange the gradients of a tied embedding, in both
  // directions at once.
  double tied_s(int first, int last) const {
    if (!shape_.tied || first == last) return 0;
    gpt::Shape untied = shape_;
    untied.tied = false;
    const auto count = static_cast<double>(gpt::parameters(untied, gpt::Part::head, layout_.cut()));
    const double bytes = count * blocks_.stored_bytes() / layout_.shards();
    return Terms{1, bytes}.seconds(links_.pipe.between(first, last));
  }

  // Returns the times with those between the last backward pass and the end of a step: the collectives that do not run
  // during the passes, and the optimizer.
  Time with_end(Time time) const {
    const double whole = parameters_ * blocks_.stored_bytes(), bytes = blocks_.reduced(whole);
    const int shards = layout_.shards();
    if (layout_.sharding == Sharding::state)
      time.data_s += links_.shards.seconds("reduce_scatter", bytes) + links_.shards.seconds("allgather", whole);
    else if (layout_.sharding == Sharding::parameters && layout_.size("shard") > 1)
      time.data_s += links_.replicas.seconds("allreduce", bytes / shards);
    else if (!layout_.overlapped)
      time.data_s += links_.replicas.seconds("allreduce", bytes);
    time.context_s += links_.context.seconds("allreduce", bytes / shards);
    time.optimizer_s += sharing_ * machine_.speed.update_s * parameters_ / shards;
    return time;
  }

  GroupLink group_link(const char* axis) const { return {layout_.mesh, axis, machine_.network, sharing_}; }

  const gpt::Shape& shape_;
  const Layout& layout_;
  const Machine& machine_;
  double sharing_;  // factor by which computing slows down because ranks share cores; 1: ranks share none
  Links links_;
  BlockTimes blocks_;
  double parameters_ = 0;  // number of parameters on the rank with the most parameters
};

}  // namespace

std::vector<StageBlocks> stages_of(const gpt::Shape& shape, const Layout& layout) {
  if (!layout.schedule) return {{.embed = true, .norm = true, .head = true, .layers = shape.layers}};
  std::vector<StageBlocks> stages;
  int64_t first = 0;
  const int64_t norm = shape.layers + 1;  // index of the norm's block; the layers are blocks 1 to norm - 1
  for (const int64_t size : layout.stage_sizes) {
    const int64_t last = first + size;
    stages.push_back({.embed = first == 0,
                      .norm = first <= norm && norm < last,
                      .head = last == norm + 2,
                      .layers = std::clamp<int64_t>(last, 1, norm) - std::clamp<int64_t>(first, 1, norm)});
    first = last;
  }
  return stages;
}

pipeline::Schedule schedule_of(const Layout& layout, int64_t micro_batches) {
  return pipeline::make_schedule(
      *layout.schedule,
      {.ranks = layout.size("pp"), .chunks = layout.stages, .microbatches = static_cast<int>(micro_batches)});
}

Time time_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const Machine& machine) {
  return *time_within(shape, precision, layout, machine, std::numeric_limits<double>::infinity());
}

std::optional<Time> time_within(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout,
                                const Machine& machine, double most_s) {
  return Timing(shape, precision, layout, machine).step(most_s);
}

}  // namespace dpbench::forecast
