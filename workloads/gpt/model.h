// The model of the workload gpt: a decoder-only transformer as a list of blocks (embed, one per layer, norm, head).
// Parameters have the names of Hugging Face's Llama, so Hugging Face can load a saved model of style llama without
// experts.
#pragma once

#include <memory>

#include "workloads/api/workload.h"
#include "workloads/gpt/shape.h"

namespace dpbench::gpt {

// Makes the model. Its input is a tensor of token ids, of shape [samples, tokens], and its output are the logits, of
// shape [samples, tokens, vocab]. With experts, the output has one more column: the balance losses of the token's
// sequence, summed over layers.
std::shared_ptr<Model> make_model(const Shape& shape, uint64_t seed);

}  // namespace dpbench::gpt
