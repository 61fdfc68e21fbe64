"""The model of the workload gpt as torch.nn modules, which PyTorch's strategies can divide. Parameters have the same
names and values as the model in C++ (workloads/gpt/model.cpp)."""
from collections import namedtuple

import torch
import torch.distributed as dist
from torch import nn

import dpbench
from dpbench import hosted_models, models

ops = torch.ops.dpbench
Shape = namedtuple("Shape", "llama layers hidden heads kv_heads mlp seq vocab tied dropout")


def read(setup):
    """Returns the shape of the workload's model, and its tensors by name with rank 0's initial values. Raises
    UsageError for all models but those of the workload gpt without experts."""
    model = setup.model()
    weights = dict(model.named_parameters())
    if not isinstance(model, models.Model) or "model.embed_tokens.weight" not in weights or setup.sum_loss:
        raise dpbench.UnsuitableModel(
            f"{setup.strategy} divides the model of the workload gpt alone: use --workload gpt")
    if "model.layers.0.mlp.router.weight" in weights:
        raise dpbench.UnsuitableModel(
            f"{setup.strategy} does not divide a model with experts: use --model with experts=0")
    if ops.recompute.default(model._number):
        raise dpbench.UsageError(f"{setup.strategy} recomputes nothing: leave out --recompute")
    seq, heads, kv_heads, layers = ops.sequence_plan.default(model._number)
    vocab, hidden = weights["model.embed_tokens.weight"].shape
    for tensor in weights.values():
        dist.broadcast(tensor.data, src=0, group=setup.group)
    return Shape(llama="model.layers.0.mlp.gate_proj.weight" in weights, layers=layers, hidden=hidden, heads=heads,
                 kv_heads=kv_heads, mlp=len(weights["model.layers.0.mlp.up_proj.weight"]), seq=seq, vocab=vocab,
                 tied="lm_head.weight" not in weights, dropout=max(ops.dropout_rates.default(model._number))), weights


def norm_of(shape):
    return (nn.RMSNorm if shape.llama else nn.LayerNorm)(shape.hidden, eps=1e-5)


class WholeSequence:
    """Which tokens of each sample a rank computes: here, the whole sequence. Subclasses divide it among ranks."""

    def positions(self, count, device):
        """Returns the positions of the rank's `count` tokens in the sequence."""
        return torch.arange(count, device=device)

    def attend(self, query, key, value):
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True,
                                                          enable_gqa=query.shape[1] > key.shape[1])

    def dropout(self, layer, x):
        return layer(x)


def rotated(x, positions):
    """Applies Llama 3's rotary embedding to x [samples, heads, tokens, features]. positions: of the tokens."""
    size = x.shape[-1]
    speeds = 500_000.0 ** -(torch.arange(0, size, 2, dtype=torch.float64, device=x.device) / size)
    angles = torch.outer(positions.double(), speeds).repeat(1, 2)
    first, second = x.chunk(2, -1)
    dtype = x.dtype if x.dtype == torch.float64 else torch.float32
    return x * angles.cos().to(dtype) + torch.cat([-second, first], -1) * angles.sin().to(dtype)


class Attention(nn.Module):
    def __init__(self, shape, sequence):
        super().__init__()
        self.size, self.llama, self.sequence = shape.hidden // shape.heads, shape.llama, sequence
        shared = shape.kv_heads * self.size
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=not shape.llama)
        self.k_proj = nn.Linear(shape.hidden, shared, bias=not shape.llama)
        self.v_proj = nn.Linear(shape.hidden, shared, bias=not shape.llama)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=not shape.llama)

    def forward(self, x):
        query, key, value = (project(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
                             for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.llama:
            positions = self.sequence.positions(x.shape[1], x.device)
            query, key = rotated(query, positions), rotated(key, positions)
        return self.o_proj(self.sequence.attend(query, key, value).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.mlp, bias=False) if shape.llama else None
        self.up_proj = nn.Linear(shape.hidden, shape.mlp, bias=not shape.llama)
        self.down_proj = nn.Linear(shape.mlp, shape.hidden, bias=not shape.llama)

    def forward(self, x):
        if self.gate_proj is None:
            return self.down_proj(nn.functional.gelu(self.up_proj(x), approximate="tanh"))
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape, number, sequence):
        super().__init__()
        self.sequence = sequence
        self.input_layernorm, self.post_attention_layernorm = norm_of(shape), norm_of(shape)
        self.self_attn, self.mlp = Attention(shape, sequence), Mlp(shape)
        self.attention_dropout, self.mlp_dropout = (hosted_models.KeyedDropout(shape.dropout, 2 * number + place)
                                                    for place in (1, 2))

    def forward(self, x):
        dropout = self.sequence.dropout
        x = x + dropout(self.attention_dropout, self.self_attn(self.input_layernorm(x)))
        return x + dropout(self.mlp_dropout, self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    """The layers `layers` of the model, without its head. first: adds the embeddings. last: adds the final norm."""

    def __init__(self, shape, layers, first, last, sequence):
        super().__init__()
        self.sequence = sequence
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden) if first else None
        self.embed_positions = nn.Embedding(shape.seq, shape.hidden) if first and not shape.llama else None
        self.embed_dropout = hosted_models.KeyedDropout(shape.dropout, 0)
        self.layers = nn.ModuleDict({str(number): Layer(shape, number, sequence) for number in layers})
        self.norm = norm_of(shape) if last else None

    def forward(self, x):
        if self.embed_tokens is not None:
            x = self.embed_tokens(x)
            if self.embed_positions is not None:
                x = x + self.embed_positions(self.sequence.positions(x.shape[1], x.device))
            x = self.sequence.dropout(self.embed_dropout, x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.norm is None else self.norm(x)


class Gpt(nn.Module):
    """The workload's model, or a part of it with these layers. weights: tensors by name, as read() returns them.
    sequence: the tokens that this rank computes."""

    def __init__(self, setup, shape, weights, layers=None, first=True, last=True, sequence=WholeSequence()):
        super().__init__()
        self.setup, self.step = setup, 0
        self.model = Body(shape, range(shape.layers) if layers is None else layers, first, last, sequence)
        self.lm_head = nn.Linear(shape.hidden, shape.vocab, bias=False) if last else None
        if last and shape.tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.to(setup.device, torch.float32 if setup.dtype == torch.bfloat16 else setup.dtype)
        with torch.no_grad():
            for name, tensor in self.named_parameters():
                tensor.copy_(weights[name])

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Lists the tied weight of embedding and head once, under one name, as the workload does."""
        return super().named_parameters(prefix, recurse)

    def forward(self, x, ids=None):
        now = hosted_models.context  # KeyedDropout derives its masks from these values
        now.step, now.seed, now.ids = self.step, self.setup.step_seed, ids
        with self.setup.autocast():
            x = self.model(x)
            x = x if self.lm_head is None else self.lm_head(x)
        return x.float() if self.setup.dtype == torch.bfloat16 else x
