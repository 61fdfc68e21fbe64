"""PyTorch's tensor parallelism (parallelize_module) as the strategy py-tp, on the workload py-gpt: the model of
--workload gpt --model small,tied=off as torch.nn modules. For dpbench --plugin; see README.md."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

import dpbench

LAYERS, HIDDEN, HEADS, SEQ, VOCAB = 4, 128, 4, 128, 256


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))

    def forward(self, x):
        query, key, value = (project(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
                             for project in (self.q_proj, self.k_proj, self.v_proj))
        heads = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(heads.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.down_proj(nn.functional.gelu(self.up_proj(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.embed_positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.lm_head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids) + self.embed_positions.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


@dpbench.workload("py-gpt", batch=4, optimizer="adam", learning_rate=1e-3, samples=512)
class PyGpt:
    """the workload gpt with --model small,tied=off as torch.nn modules"""

    def __init__(self):
        self.tokens = torch.randint(0, VOCAB, (512, SEQ + 1), generator=torch.Generator().manual_seed(1))

    def model(self):
        return Gpt()

    def loss(self, output, target):
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    def batch(self, ids):
        rows = self.tokens[ids]
        return rows[:, :-1], rows[:, 1:]


@dpbench.strategy("py-tp", buffers="rank0", collective_evaluation=True, axes=["tp"])
class TensorParallel(dpbench.Strategy):
    """PyTorch's parallelize_module, with its loss over a divided vocabulary"""

    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        for tensor in self.model.parameters():
            dist.broadcast(tensor.data, src=0, group=setup.group)
        plan = {"embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        for number in range(LAYERS):
            for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj"):
                plan[f"layers.{number}.{name}"] = ColwiseParallel()
            for name in ("self_attn.o_proj", "mlp.down_proj"):
                plan[f"layers.{number}.{name}"] = RowwiseParallel()
        parallelize_module(self.model, setup.device_mesh(), plan)
        self.optimizer = setup.optimizer(self.model.parameters(), fused=False, foreach=False)

    def step(self, step, micro):
        (batch,) = micro
        self.optimizer.zero_grad()
        self.model.step = step
        dpbench.phase("forward")
        output = self.model(batch.input, batch.ids)
        with loss_parallel():
            loss = nn.functional.cross_entropy(output.flatten(0, 1), batch.target.flatten())
            dpbench.phase("backward")
            loss.backward()
        dpbench.phase("communication")
        whole = output.detach().full_tensor()
        self.update(step)
        return whole, loss.detach().full_tensor()

    def forward(self, batch):
        outputs = []
        for rank in range(self.setup.world):
            words = batch.input.clone()
            dist.broadcast(words, src=rank, group=self.setup.group)
            with torch.no_grad():
                outputs.append(self.model(words, batch.ids).full_tensor())
        return outputs[self.setup.rank]

    def parameters(self):
        return {name: whole(tensor) for name, tensor in super().parameters().items()}

    def gradients(self):
        return {name: whole(tensor) for name, tensor in super().gradients().items()}

    def state(self):
        return {name: whole(tensor) for name, tensor in super().state().items()}


def whole(tensor):
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor
