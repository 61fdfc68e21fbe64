"""PyTorch's tensor parallelism (parallelize_module) and pipelines (torch.distributed.pipelining) as the strategies
py-tp and py-pp, for --workload gpt --model small,tied=off alone: they build its model as torch.nn modules, with its
weights. For dpbench --plugin; see README.md."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
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


class Body(nn.Module):
    """The model without its head. A pipeline stage is a body with some of the layers; the first has the embeddings, the
    last the final norm."""

    def __init__(self, layers=range(LAYERS), first=True, last=True):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN) if first else None
        self.embed_positions = nn.Embedding(SEQ, HIDDEN) if first else None
        self.layers = nn.ModuleDict({str(number): Layer() for number in layers})
        self.norm = nn.LayerNorm(HIDDEN) if last else None

    def forward(self, x):
        if self.embed_tokens is not None:
            x = self.embed_tokens(x) + self.embed_positions.weight[:x.shape[1]]
        for layer in self.layers.values():
            x = layer(x)
        return x if self.norm is None else self.norm(x)


class Gpt(nn.Module):
    """The workload's model or, with fewer layers, a pipeline stage of it, with rank 0's initial weights."""

    def __init__(self, setup, layers=range(LAYERS), first=True, last=True):
        super().__init__()
        self.model = Body(layers, first, last)
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False) if last else None
        weights = dict(setup.model().named_parameters())
        if first and last and weights.keys() != dict(self.named_parameters()).keys():
            raise dpbench.UsageError("this study runs --workload gpt --model small,tied=off only")
        self.to(setup.dtype)
        with torch.no_grad():
            for name, tensor in self.named_parameters():
                tensor.copy_(weights[name])

    def forward(self, x, ids=None):
        x = self.model(x)
        return x if self.lm_head is None else self.lm_head(x)


@dpbench.strategy("py-tp", buffers="rank0", collective_evaluation=True, axes=["tp"])
class TensorParallel(dpbench.Strategy):
    """PyTorch's parallelize_module, with its loss over a divided vocabulary"""

    def __init__(self, setup):
        super().__init__(setup)
        self.model = Gpt(setup)
        for tensor in self.model.parameters():
            dist.broadcast(tensor.data, src=0, group=setup.group)
        plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        for number in range(LAYERS):
            for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj"):
                plan[f"model.layers.{number}.{name}"] = ColwiseParallel()
            for name in ("self_attn.o_proj", "mlp.down_proj"):
                plan[f"model.layers.{number}.{name}"] = RowwiseParallel()
        parallelize_module(self.model, setup.device_mesh(), plan)
        self.optimizer = setup.optimizer(self.model.parameters(), fused=False, foreach=False)

    def step(self, step, micro):
        (batch,) = micro
        self.optimizer.zero_grad()
        dpbench.phase("forward")
        output = self.model(batch.input)
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
                outputs.append(self.model(words).full_tensor())
        return outputs[self.setup.rank]

    def parameters(self):
        return {name: whole(tensor) for name, tensor in super().parameters().items()}

    def gradients(self):
        return {name: whole(tensor) for name, tensor in super().gradients().items()}

    def state(self):
        return {name: whole(tensor) for name, tensor in super().state().items()}


def whole(tensor):
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


SCHEDULES = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B,
             "zbv": pipelining.ScheduleZBVZeroBubble}


@dpbench.strategy("py-pp", buffers="rank0", collective_evaluation=True, axes=["pp"],
                  params=[("schedule", "1f1b", "PyTorch's schedule", "|".join(SCHEDULES)),
                          ("microbatches", "8", "micro-batches of a step", "integer"),
                          ("outputs", "on", "every rank gets the output of a step, as checks need", "on|off")])
class Pipeline(dpbench.Strategy):
    """PyTorch's torch.distributed.pipelining"""

    def __init__(self, setup):
        super().__init__(setup)
        self.world, self.wave = setup.world, setup.params["schedule"] == "zbv"
        count = 2 * self.world if self.wave else self.world
        if LAYERS % count:
            raise dpbench.UsageError(f"{count} stages do not divide {LAYERS} layers")
        size = LAYERS // count
        self.stages = {number: Gpt(setup, range(number * size, (number + 1) * size), number == 0, number == count - 1)
                       for number in range(count) if self.owner(number) == setup.rank}
        self.count, self.schedules = count, {}
        for name, tensor in setup.model().named_parameters():  # rank 0's initial weights
            dist.broadcast(tensor.data, src=0, group=setup.group)
            if name in (own := self.own()):
                own[name].data.copy_(tensor)
        self.optimizer = setup.optimizer(self.own())

    def owner(self, stage):
        """Returns the rank of a stage. With zbv each rank has two stages, and the first rank has the first and the
        last."""
        return min(stage, 2 * self.world - 1 - stage) if self.wave else stage

    def gather(self, mine):
        all_ranks = [None] * self.world
        dist.all_gather_object(all_ranks, mine, group=self.setup.group)
        return {name: value for one in all_ranks for name, value in one.items()}

    def own(self):
        return {name: tensor for stage in self.stages.values() for name, tensor in stage.named_parameters()}

    def schedule_of(self, batch):
        """Returns the schedule for batches of this shape, whose stages have buffers of fixed sizes."""
        rows = batch.input.shape[0]
        if rows not in self.schedules:
            wanted = int(self.setup.params["microbatches"])
            micros = max(n for n in range(1, min(rows, wanted) + 1) if rows % n == 0)
            words = torch.zeros(rows // micros, SEQ, dtype=torch.long, device="meta")
            hidden = torch.zeros(rows // micros, SEQ, HIDDEN, dtype=self.setup.dtype, device="meta")
            logits = torch.zeros(rows // micros, SEQ, VOCAB, dtype=self.setup.dtype, device="meta")
            stages = [pipelining.PipelineStage(stage, number, self.count, self.setup.device, group=self.setup.group,
                                               input_args=words if number == 0 else hidden,
                                               output_args=logits if number == self.count - 1 else hidden)
                      for number, stage in self.stages.items()]
            for stage in stages:  # the first messages of ZBV are from a rank to itself, which gloo does not carry
                stage._get_init_p2p_neighbors_ops = list
            self.schedules[rows] = SCHEDULES[self.setup.params["schedule"]](
                stages if self.wave else stages[0], micros, loss_fn=self.setup.loss, scale_grads=True)
        return self.schedules[rows]

    def step(self, step, micro):
        (batch,) = micro
        self.optimizer.zero_grad()
        schedule, losses = self.schedule_of(batch), []
        last = self.count - 1 in self.stages
        dpbench.phase("forward")
        output = schedule.step(*([batch.input] if 0 in self.stages else []),
                               **({"target": batch.target, "losses": losses} if last else {}))
        dpbench.phase("communication")
        loss = torch.stack(losses).mean().detach() if last else torch.zeros((), dtype=self.setup.dtype)
        dist.broadcast(loss, src=self.owner(self.count - 1), group=self.setup.group)
        logits = output.detach() if last else torch.zeros(len(batch.input), SEQ, VOCAB, dtype=self.setup.dtype)
        if self.setup.flag("outputs"):
            dist.broadcast(logits, src=self.owner(self.count - 1), group=self.setup.group)
        dpbench.phase("optimizer")
        self.clip()
        self.setup.schedule(self.optimizer, step)
        self.optimizer.step()
        return logits, loss

    def clip(self):
        if self.setup.clip_norm is None:
            return
        squares = sum(tensor.grad.double().square().sum() for tensor in self.own().values())
        dist.all_reduce(squares, group=self.setup.group)
        factor = min(1.0, self.setup.clip_norm / (squares.sqrt().item() + 1e-6))
        for tensor in self.own().values():
            tensor.grad.mul_(factor)

    def forward(self, batch):
        outputs = []
        for rank in range(self.world):
            x = batch.input.clone()
            dist.broadcast(x, src=rank, group=self.setup.group)
            for stage in range(self.count):
                last = stage == self.count - 1
                shape = (len(x), SEQ, VOCAB if last else HIDDEN)
                with torch.no_grad():
                    x = self.stages[stage](x) if stage in self.stages else torch.zeros(shape, dtype=self.setup.dtype)
                dist.broadcast(x, src=self.owner(stage), group=self.setup.group)
            outputs.append(x)
        return outputs[self.setup.rank]

    def everywhere(self, mine):
        """Returns the tensors of all ranks, by name, on every rank."""
        shapes = self.gather({name: (tuple(tensor.shape), self.setup.rank) for name, tensor in mine.items()})
        found = {}
        for name, (shape, owner) in sorted(shapes.items()):
            dtype = torch.float32 if name.endswith(".step") else self.setup.dtype
            found[name] = mine[name].detach().clone() if name in mine else torch.zeros(shape, dtype=dtype)
            dist.broadcast(found[name], src=owner, group=self.setup.group)
        return found

    def parameters(self):
        return self.everywhere(self.own())

    def gradients(self):
        return self.everywhere({name: tensor.grad for name, tensor in self.own().items() if tensor.grad is not None})

    def state(self):
        found = {}
        for name, tensor in self.own().items():
            for slot, key in self.slots().items():
                entry = self.optimizer.state.get(tensor, {}).get(key)
                if entry is None:
                    entry = torch.zeros(()) if slot == "step" else torch.zeros_like(tensor)
                found[f"{name}.{slot}"] = entry
        return self.everywhere(found)

    def buffers(self):
        return {}

    def load(self, parameters, buffers, state):
        own = self.own()
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(parameters[name])
        for name, tensor in state.items():
            parameter, slot = name.rsplit(".", 1)
            if parameter in own:
                self.optimizer.state[own[parameter]][self.slots()[slot]] = tensor.clone()
