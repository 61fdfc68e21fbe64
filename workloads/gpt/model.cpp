#include "workloads/gpt/model.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "workloads/base/error.h"
#include "workloads/gpt/attention.h"
#include "workloads/gpt/experts.h"
#include "workloads/gpt/layers.h"
#include "workloads/gpt/plan.h"
#include "workloads/layers/dropout.h"

namespace dpbench::gpt {
namespace {

at::Tensor entered(const at::Tensor& x, const TensorSplit* split) { return split ? split->enter(x) : x; }

// Converts ranges of a sample's tokens to ranges of features: feature f of token t has the number t * hidden + f in the
// whole sample.
std::vector<Piece> features_of(std::vector<Piece> tokens, int64_t hidden) {
  for (Piece& piece : tokens) piece = {piece.first * hidden, piece.size * hidden};
  return tokens;
}

// An activation that travels between blocks. In a model with experts, it has one more feature than `hidden`: the
// balance losses of the token's sequence, summed over the layers so far. Because the sum travels with the activation,
// it reaches the loss even if the model is divided among ranks.
struct Activation {
  // balance: the additional feature, which carries the balance losses; undefined in a model without experts.
  at::Tensor x, balance;

  static Activation of(const at::Tensor& tensor, const Shape& shape) {
    if (shape.experts == 0) return {tensor, {}};
    return {tensor.narrow(-1, 0, shape.hidden), tensor.narrow(-1, shape.hidden, 1)};
  }
  at::Tensor joined() const { return balance.defined() ? at::cat({x, balance}, -1) : x; }
};

// One layer of the transformer: x + attention(norm(x)), then x + mlp(norm(x)). Under tensor and context parallelism, x
// may hold only some of the tokens.
class Layer : public torch::nn::Module {
 public:
  // number: index of this layer among the model's layers, from 0
  Layer(const Shape& shape, int64_t number, const InitialWeights& weights)
      : shape_(shape),
        before_attention_(register_module("input_layernorm", std::make_shared<Norm>(shape))),
        attention_(register_module("self_attn", std::make_shared<Attention>(shape, weights))),
        before_mlp_(register_module("post_attention_layernorm", std::make_shared<Norm>(shape))),
        after_attention_(register_module("attention_dropout", dropout(shape, 2 * number + 1))),
        after_mlp_(register_module("mlp_dropout", dropout(shape, 2 * number + 2))) {
    if (shape.experts > 0)
      experts_ = register_module("mlp", std::make_shared<Experts>(shape, weights));
    else
      mlp_ = register_module("mlp", std::make_shared<Mlp>(shape, weights));
  }

  at::Tensor forward(const at::Tensor& input, const Context& context) const {
    const TensorSplit* split = context.split.tensor.get();
    auto [x, balance] = Activation::of(input, shape_);
    const std::vector<Piece> seen = features_of(context.split.tokens(x.size(1)), x.size(2));
    const at::Tensor attended = attention_->forward(entered(before_attention_->forward(x), split), context.split);
    const at::Tensor y = x + after_attention_->forward(attended, context, seen);
    at::Tensor found = entered(before_mlp_->forward(y), split);
    if (experts_) {
      const Experts::Output mixed = experts_->forward(found, context.split.experts.get());
      found = mixed.y, balance = balance + mixed.balance.view({-1, 1, 1});
    } else {
      found = mlp_->forward(found, split);
    }
    return Activation{y + after_mlp_->forward(found, context, seen), balance}.joined();
  }

  static std::shared_ptr<Dropout> dropout(const Shape& shape, int64_t number) {
    return std::make_shared<Dropout>(shape.dropout, static_cast<uint64_t>(number));
  }

 private:
  Shape shape_;
  std::shared_ptr<Norm> before_attention_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Norm> before_mlp_;
  std::shared_ptr<Mlp> mlp_;          // null if the layer has experts in place of an MLP
  std::shared_ptr<Experts> experts_;  // null if the layer has an MLP and no experts
  std::shared_ptr<Dropout> after_attention_, after_mlp_;
};

class Transformer : public Model {
 public:
  Transformer(const Shape& shape, uint64_t seed) : shape_(shape) {
    const InitialWeights weights(seed, shape.exact);
    const auto model = register_module("model", std::make_shared<torch::nn::Module>("model"));
    const auto tokens =
        model->register_module("embed_tokens", std::make_shared<Embedding>(shape.vocab, shape.hidden, weights));
    add_embed(shape, *model, tokens, weights);
    const auto layers = model->register_module("layers", std::make_shared<torch::nn::Module>("layers"));
    for (int64_t i = 0; i < shape.layers; ++i) {
      const auto name = std::to_string(i);
      const auto layer = layers->register_module(name, std::make_shared<Layer>(shape, i, weights));
      add({"model.layers." + name, {layer}, [layer](const at::Tensor& x, const Context& context) {
             return layer->forward(x, context);
           }});
    }
    const auto norm = model->register_module("norm", std::make_shared<Norm>(shape));
    add({"model.norm", {norm}, [norm, shape](const at::Tensor& x, const Context&) {
           const Activation in = Activation::of(x, shape);
           return Activation{norm->forward(in.x), in.balance}.joined();
         }});
    add_head(shape, tokens, weights);
  }

  TensorPlan tensor_plan(int ranks) const override {
    refuse_experts("tensor parallelism");
    return plan_of(shape_, ranks);
  }
  ExpertPlan expert_plan(int ranks) const override { return expert_plan_of(shape_, ranks); }
  SequencePlan sequence_plan() const override {
    refuse_experts("context parallelism");
    return {.tokens = shape_.seq,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .layers = shape_.layers,
            .head_size = shape_.head_size(),
            .first_layer = first_layer,
            .casts_keys = !shape_.exact && shape_.style == Style::gpt2,  // Llama's rotation returns float32
            .casts_values = !shape_.exact};
  }

 private:
  void refuse_experts(const std::string& kind) const {
    if (shape_.experts > 0) throw UsageError(kind + " does not divide a model with experts. Use the axis ep");
  }

  void add_embed(const Shape& shape, torch::nn::Module& model, const std::shared_ptr<Embedding>& tokens,
                 const InitialWeights& weights) {
    std::shared_ptr<Embedding> positions;
    if (shape.style == Style::gpt2)
      positions =
          model.register_module("embed_positions", std::make_shared<Embedding>(shape.seq, shape.hidden, weights));
    const auto dropout = model.register_module("embed_dropout", Layer::dropout(shape, 0));
    using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;
    const Modules layers = positions ? Modules{tokens, positions, dropout} : Modules{tokens, dropout};
    add({"model.embed_tokens", layers, [=](const at::Tensor& ids, const Context& context) {
           const ModelSplit& split = context.split;
           const at::Tensor own = split.sequence ? pieces_of(ids, 1, split.sequence->tokens()) : ids;
           at::Tensor x = split.tensor ? tokens->summed(own, *split.tensor) : at::embedding(tokens->weight(), own);
           const std::vector<Piece> seen = split.tokens(ids.size(1));
           if (positions) x = x + pieces_of(positions->weight(), 0, seen);
           x = dropout->forward(x, context, features_of(seen, x.size(2)));
           const at::Tensor none = shape.experts > 0 ? at::zeros({x.size(0), x.size(1), 1}, x.options()) : at::Tensor();
           return Activation{x, none}.joined();
         }});
  }

  static at::Tensor head_output(const Shape& shape, const at::Tensor& hidden, const at::Tensor& weight,
                                const Context& context) {
    const Activation in = Activation::of(hidden, shape);
    return Activation{logits_of(entered(in.x, context.split.tensor.get()), weight), in.balance}.joined();
  }

  void add_head(const Shape& shape, const std::shared_ptr<Embedding>& tokens, const InitialWeights& weights) {
    if (shape.tied)
      return add({"lm_head", {tokens}, [tokens, shape](const at::Tensor& hidden, const Context& context) {
                    return head_output(shape, hidden, tokens->weight(), context);
                  }});
    const auto head = register_module(
        "lm_head", std::make_shared<Dense>(shape.hidden, shape.vocab, /*biased=*/false, initial_spread, weights));
    add({"lm_head", {head}, [head, shape](const at::Tensor& x, const Context& context) {
           return head_output(shape, x, head->weight(), context);
         }});
  }

  // Adds a block to the model. For gpt-exact, the block runs without autocast: bfloat16 represents all whole numbers
  // only up to 256.
  void add(Block block) {
    if (shape_.exact)
      block.forward = [forward = std::move(block.forward)](const at::Tensor& x, const Context& context) {
        const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
        return forward(x, context);
      };
    add_block(std::move(block));
  }

  Shape shape_;
};

}  // namespace

std::shared_ptr<Model> make_model(const Shape& shape, uint64_t seed) {
  return std::make_shared<Transformer>(shape, seed);
}

}  // namespace dpbench::gpt
