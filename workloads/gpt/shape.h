// The shape of a GPT: the flag --model of the workload gpt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpbench::gpt {

// gpt2: learned positions, LayerNorm, GELU, biases. llama: rotary positions, RMSNorm, SwiGLU, no biases.
enum class Style { gpt2, llama };

inline constexpr int64_t no_target = -100;  // label (target) of padding tokens; the loss ignores them

enum class Update { adamw, momentum, sgd };

struct Shape {
  Style style = Style::gpt2;
  int64_t layers = 4, hidden = 128, heads = 4;
  // Number of key and value heads; heads / kv_heads query heads share each of them; 0: each query head has its own.
  int64_t kv_heads = 0;
  int64_t mlp = 0;  // width of the MLP; 0: 4 x hidden for gpt2, 8/3 x hidden for llama
  int64_t seq = 128, vocab = 256;
  // A layer has `experts` MLPs, and a router selects top_k of them for each token. 0: a layer has one MLP and no
  // router.
  int64_t experts = 0, top_k = 2;
  // The most tokens of a sequence that an expert takes, as a multiple of its equal share of the sequence's tokens. It
  // drops later tokens. 0: no limit.
  double capacity = 0;
  double balance = 0.01;  // factor of the balance loss, which makes the router use all experts equally
  bool tied = true;       // the head uses the weight of the token embedding
  double dropout = 0;     // dropout rate of the embeddings and of each layer's outputs
  // True: samples have different lengths, and each is filled up by padding tokens, which have no target.
  bool padding = false;
  // True for models of the workload gpt-exact, in which every value is a small whole number, so that sums are exact in
  // any order. Weights are -1, 0 or 1, clamping replaces norms and softmax, ReLU replaces GELU and SiLU, and there are
  // no rotary positions.
  bool exact = false;
  Update optimizer = Update::adamw;
  double learning_rate = 1e-3;
  // Steps of the learning rate's linear warm-up, and of its cosine decay afterwards; 0: none.
  int64_t warmup = 0, decay = 0;

  int64_t head_size() const { return hidden / heads; }
  // Returns the number of parameters in all matrices by which a token's features are multiplied. This includes the
  // head, even if it shares its weight with the embedding.
  int64_t multiplied_parameters() const;
  // Returns the floating-point operations of one training step on a sample: forward and backward pass, by the formula
  // 6 x parameters x tokens + 12 x layers x hidden x tokens^2.
  double flop_per_row() const;
};

// Names of the predefined shapes, and of the sizes that --model can set, for help texts.
std::vector<std::string> shape_names();
std::string size_names();
// Sizes for small random models, as groups of alternatives. A random model takes one entry of every group.
std::vector<std::vector<std::string>> drawn_sizes();

// Parses the flag --model, such as "small", "small,layers=8" or "layers=8,hidden=64". Sizes that are not given are
// those of the named shape, or of `small` if there is no name. Throws UsageError with the flag, the value and what is
// allowed.
Shape parse_shape(const std::string& text);

}  // namespace dpbench::gpt
