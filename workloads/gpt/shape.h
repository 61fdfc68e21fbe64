// The shape of a GPT: the flag --model of the workload gpt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpbench::gpt {

// gpt2: learned positions, LayerNorm, GELU, biases. llama: rotary positions, RMSNorm, SwiGLU, no biases.
enum class Style { gpt2, llama };

inline constexpr int64_t no_target = -100;  // label of padding, which the loss ignores

enum class Update { adamw, momentum, sgd };

struct Shape {
  Style style = Style::gpt2;
  int64_t layers = 4, hidden = 128, heads = 4;
  int64_t kv_heads = 0;  // heads of keys and values, each shared by heads / kv_heads query heads; 0: as many as heads
  int64_t mlp = 0;       // width of the MLP; 0: 4 x hidden for gpt2, 8/3 x hidden for llama
  int64_t seq = 128, vocab = 256;
  // experts: number of MLPs per layer, from which a router selects top_k for each token. 0: one MLP per layer, no
  // router.
  int64_t experts = 0, top_k = 2;
  // Limit on the tokens of a sequence that an expert takes, relative to an equal share of the tokens; later tokens are
  // dropped. 0: no limit.
  double capacity = 0;
  double balance = 0.01;  // factor of the balance loss, which makes the router use all experts equally
  bool tied = true;       // the head uses the weight of the token embedding
  double dropout = 0;     // dropout rate of the embeddings and of each layer's outputs
  bool padding = false;   // samples have different lengths; the padding after them has no target
  // True for the workload gpt-exact: every value is a small whole number, so that sums are exact in any order. Weights
  // are -1, 0 or 1. Clamping replaces norms and softmax, ReLU replaces GELU and SiLU, and there are no rotary
  // positions.
  bool exact = false;
  Update optimizer = Update::adamw;
  double learning_rate = 1e-3;
  int64_t warmup = 0, decay = 0;  // steps of the linear warm-up and of the cosine decay after it; 0: none

  int64_t head_size() const { return hidden / heads; }
  // Returns the number of parameters of the matrices that multiply a token; a tied embedding counts as the head.
  int64_t multiplied_parameters() const;
  // Returns the floating-point operations of one training step on a sample: forward and backward pass, by the formula
  // 6 x parameters x tokens + 12 x layers x hidden x tokens^2.
  double flop_per_row() const;
};

// Names of the predefined shapes, and of the sizes that --model can set, for help texts.
std::vector<std::string> shape_names();
std::string size_names();
// Sizes for small random models, in groups. A random model takes one entry of each group.
std::vector<std::vector<std::string>> drawn_sizes();

// Parses "small", "small,layers=8" or "layers=8,hidden=64"; without a name, the other values are those of `small`.
// Throws UsageError with the flag, the value and what is allowed.
Shape parse_shape(const std::string& text);

}  // namespace dpbench::gpt
