// Wrong strategies of one mesh axis in an otherwise correct layout on 4 ranks. The second axis of the mesh, the order
// of the axes, the model and the options are drawn at random.
#include <random>

#include <ATen/ATen.h>

#include "strategies/layout/layout.h"
#include "strategies/parts/shard_sums.h"
#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace composed {

using layout::Held;
using layout::Options;

enum class Mistake {
  none,
  summand_lost,
  input_gradient_not_summed,
  averaged_twice,
  rows_averaged_twice,
  tokens_not_summed,
  tie_not_summed,
  loss_divided_by_stages,
  copies_in_the_norm,
  replicas_in_the_norm,
  rows_of_one_rank_in_the_norm,
  experts_not_divided,
};

// A mistake in how a layout computes on the mesh axis `axis`, the check that must catch it, and a term of that check's
// message.
struct WrongLayoutPart {
  const char* name;
  Mistake mistake;
  const char *axis, *killed_by, *key_term;
};

const std::vector<WrongLayoutPart>& wrong_parts() {
  using enum Mistake;
  static const std::vector<WrongLayoutPart> parts = {
      {"summand-lost", summand_lost, "tp", "output-value", "another rank"},
      {"input-gradient-not-summed", input_gradient_not_summed, "tp", "gradient-meaning", "parameter"},
      {"averaged-twice", averaged_twice, "dp", "gradient-meaning", "0.5 times"},
      {"rows-averaged-twice", rows_averaged_twice, "shard", "gradient-meaning", "0.5 times"},
      {"tokens-not-summed", tokens_not_summed, "cp", "gradient-meaning", "parameter"},
      {"tie-not-summed", tie_not_summed, "pp", "gradient-meaning", "embed_tokens"},
      {"loss-divided-by-stages", loss_divided_by_stages, "pp", "gradient-meaning", "0.5 times"},
      {"copies-in-the-norm", copies_in_the_norm, "tp", "clip", "scenario clip"},
      {"replicas-in-the-norm", replicas_in_the_norm, "dp", "clip", "scenario clip"},
      {"rows-of-one-rank-in-the-norm", rows_of_one_rank_in_the_norm, "shard", "clip", "scenario clip"},
      {"experts-not-divided", experts_not_divided, "ep", "gradient-meaning", "2 times"},
      {"nothing-wrong", none, "dp", "", ""},
  };
  return parts;
}

class WrongExchange : public tensor::Exchange {
 public:
  WrongExchange(const Axis& axis, const tensor::Options& options, int64_t tokens, Phases* phases, Mistake mistake)
      : Exchange(axis, options, tokens, phases), mistake_(mistake) {}

  at::Tensor enter(const at::Tensor& x) const override {
    if (mistake_ != Mistake::input_gradient_not_summed) return Exchange::enter(x);
    return options_.sequence ? varying_to_invariant(x, axis_, tokens_) : x;
  }
  at::Tensor leave(const at::Tensor& x, const Product& product) const override {
    const bool lost = mistake_ == Mistake::summand_lost && rank() == 1;
    return Exchange::leave(x, [&](const at::Tensor& part) { return lost ? product(part) * 0 : product(part); });
  }

 private:
  Mistake mistake_;
};

class Composed : public layout::Layout {
 public:
  Composed(const Setup& setup, const Options& options, Mistake mistake) : Layout(setup, options), mistake_(mistake) {}

 protected:
  std::shared_ptr<const TensorSplit> make_exchange(const tensor::Options& options, int64_t tokens,
                                                   Phases* phases) const override {
    return std::make_shared<WrongExchange>(axes_.tp, options, tokens, phases, mistake_);
  }

  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                     size_t micros) const override {
    const at::Tensor loss = Layout::loss_of(output, target, split, micros);
    return is(Mistake::loss_divided_by_stages) ? loss / axes_.pp.size : loss;
  }
  void sum_tokens() const override {
    if (!is(Mistake::tokens_not_summed)) Layout::sum_tokens();
  }
  void sum_tied() override {
    if (!is(Mistake::tie_not_summed)) Layout::sum_tied();
  }
  void average_over_replicas() const override {
    Layout::average_over_replicas();
    const bool rows = is(Mistake::rows_averaged_twice);
    if (!rows && !is(Mistake::averaged_twice)) return;
    for (const at::Tensor& gradient : layout::gradients_of(model_.own))
      gradient.div_(rows ? axes_.shard.size : axes_.replicas.size);
  }

  void average_over_experts() const override {
    Layout::average_over_experts();
    if (!is(Mistake::experts_not_divided)) return;
    for (const at::Tensor& gradient :
         layout::gradients_of(model_.own_if([this](const Held& one) { return model_.is_expert(one); })))
      gradient.mul_(axes_.ep.size);
  }

  void clip() const override {
    std::vector<at::Tensor> counted, copies;
    for (const Held& one : model_.own)
      if (one.stored.grad().defined())
        (model_.counts(one) || is(Mistake::copies_in_the_norm) ? counted : copies).push_back(one.stored.grad());
    std::vector<c10d::ProcessGroup*> groups = {axes_.pp.group.get(), axes_.tp.group.get()};
    if (!is(Mistake::rows_of_one_rank_in_the_norm)) groups.push_back(axes_.shard.group.get());
    if (is(Mistake::replicas_in_the_norm)) groups.push_back(axes_.replicas.group.get());
    clip_parts(counted, *clip_norm_, at::kCPU, groups, copies);
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  Mistake mistake_;
};

// Draws the rest of a layout in which one mesh axis has a mistake: a second axis, the order of the two axes, the model
// and the options. All of these are correct.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  std::string mesh_with(const std::string& axis) {
    std::vector<std::string> others = {"dp", "shard", "pp"};
    // models with experts, which the axis ep divides, cannot be divided by cp or tp
    if (axis != "ep") others.insert(others.end(), {"cp", "tp"});
    std::erase(others, axis);
    const std::string mine = axis + "=2", other = one_of(others) + "=2";
    return coin() ? mine + "," + other : other + "," + mine;
  }
  std::string model(bool tied) {
    return one_of(std::vector<std::string>{"tiny", "tiny,layers=3,vocab=128", "tiny-llama"}) + (tied ? ",tied=on" : "");
  }
  Options options(const std::string& mesh) {
    Options options{.tensor = {.sequence = coin(), .chunks = coin() ? 2 : 1}};
    options.pipeline.family = pipeline::find_family(coin() ? "1f1b" : "gpipe");
    if (mesh.find("shard") != std::string::npos) options.sharded = fsdp::Options{.reduce_each_micro = false};
    return options;
  }

 private:
  bool coin() { return random_() % 2 == 0; }
  std::string one_of(const std::vector<std::string>& values) { return values[random_() % values.size()]; }

  std::mt19937_64 random_;
};

}  // namespace composed

std::vector<Mutant> composed_mutants(uint64_t seed) {
  using namespace composed;
  Draw draw(seed);
  std::vector<Mutant> all;
  for (const WrongLayoutPart& part : wrong_parts()) {
    const std::string mesh = draw.mesh_with(part.axis);
    const bool experts = std::string(part.axis) == "ep";
    const std::string model = experts ? "tiny-experts" : draw.model(part.mistake == Mistake::tie_not_summed);
    const auto info = [options = draw.options(mesh), mistake = part.mistake] {
      return on_axes("layout", {"dp", "shard", "ep", "cp", "pp", "tp"},
                     [=](const Setup& setup) { return std::make_unique<Composed>(setup, options, mistake); });
    };
    all.push_back(on_mesh(part.name, part.killed_by, part.key_term, info, "gpt", mesh, model));
  }
  return all;
}

}  // namespace dpbench::wrong
