"""PyTorch's own strategies that divide a model between ranks: tensor parallelism (parallelize_module), ring attention
and pipelines (torch.distributed.pipelining). They run the model of the workload gpt, written as torch.nn modules."""
import pickle
from collections import namedtuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

import dpbench
from dpbench import gpt_modules
from dpbench.dtensors import DividedStrategy, whole

NO_TARGET = -100  # the label of padding, which has no loss


class OneReplica(dpbench.Strategy):
    """Base class of strategies in which all ranks compute one model together. They implement evaluate()."""

    def share(self, tensor, source):
        """Returns the tensor of the rank `source`, whose shape may differ from this rank's."""
        shape, dtype = self.share_object((tensor.shape, tensor.dtype), source)
        mine = self.setup.rank == source
        tensor = tensor.detach().clone() if mine else torch.zeros(shape, dtype=dtype, device=self.setup.device)
        dist.broadcast(tensor, src=source, group=self.setup.group)
        return tensor

    def share_object(self, value, source):
        """Returns the object of the rank `source`. torch.distributed.broadcast_object_list would need NumPy."""
        data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(self.setup.device)
        size = torch.tensor(len(data), device=self.setup.device)
        dist.broadcast(size, src=source, group=self.setup.group)
        if self.setup.rank != source:
            data = data.new_zeros(size.item())
        dist.broadcast(data, src=source, group=self.setup.group)
        return pickle.loads(bytes(data.tolist()))

    def forward(self, batch):
        with torch.no_grad():
            outputs = [self.evaluate(self.share(batch.input, rank)) for rank in range(self.setup.world)]
        return outputs[self.setup.rank]

    def clip_to(self, parameters, norm):
        """Limits the norm of all gradients to --clip-norm. norm: their norm over all ranks."""
        nn.utils.clip_grads_with_norm_(parameters, self.setup.clip_norm, norm, foreach=False)


def require_even_parts(setup, shape):
    for size, count in (("kv_heads", shape.kv_heads), ("mlp", shape.mlp)):
        if count % setup.world:
            raise dpbench.UsageError(f"py-tp cuts heads and MLPs into equal parts, and {setup.world} ranks do not "
                                     f"divide {size}={count}: use --model with a multiple of {setup.world}")


@dpbench.strategy("py-tp", cuda=False, collective_evaluation=True, axes=["tp"])
class TensorParallel(DividedStrategy, OneReplica):
    """PyTorch's parallelize_module, with its loss over a divided vocabulary"""

    def __init__(self, setup):
        super().__init__(setup)
        shape, weights = gpt_modules.read(setup)
        require_even_parts(setup, shape)
        self.model = gpt_modules.Gpt(setup, shape, weights)
        plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        for name, _ in self.model.named_modules():
            if name.endswith(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")):
                plan[name] = ColwiseParallel()
            if name.endswith(("o_proj", "down_proj")):
                plan[name] = RowwiseParallel()
        parallelize_module(self.model, setup.device_mesh(), plan)
        if shape.tied:  # parallelize_module has made two tensors of the tied weight: make it one again
            self.model.lm_head.weight = self.model.model.embed_tokens.weight
        self.optimizer = setup.optimizer(self.model.parameters(), fused=False, foreach=False)

    def step(self, step, micro):
        self.optimizer.zero_grad()
        self.model.step = step
        outputs, losses = [], []
        for batch in micro:
            dpbench.phase("forward")
            output = self.model(batch.input, batch.ids)
            with loss_parallel():
                loss = nn.functional.cross_entropy(output.flatten(0, 1), batch.target.flatten()) / len(micro)
                dpbench.phase("backward")
                loss.backward()
            outputs.append(output.detach())
            losses.append(loss.detach())
        self.update(step)
        return lambda: torch.cat([whole(output) for output in outputs]), whole(sum(losses))

    def clip(self):
        if self.setup.clip_norm is not None:
            parameters = list(self.model.parameters())
            norms = [whole(torch.linalg.vector_norm(tensor.grad)) for tensor in parameters]
            self.clip_to(parameters, torch.linalg.vector_norm(torch.stack(norms)))

    def evaluate(self, words):
        self.model.eval()
        output = whole(self.model(words))
        self.model.train()
        return output


def terms(target):
    """Returns the number of tokens over which the loss averages; padding has no target."""
    return int(target.ne(NO_TARGET).sum())


class RingAttention(torch.autograd.Function):
    """Causal ring attention of PyTorch with its kernel for CPUs, which context_parallel() does not support."""

    @staticmethod
    def forward(ctx, ring, group, query, key, value):
        output, logsumexp = ring._templated_ring_attention(
            group, 2, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, query, key, value, is_causal=True)
        ctx.save_for_backward(query, key, value, output, logsumexp)
        ctx.ring, ctx.group = ring, group
        return output

    @staticmethod
    def backward(ctx, slope):
        query, key, value, output, logsumexp = ctx.saved_tensors
        return None, None, *ctx.ring._templated_ring_attention_backward(
            ctx.group, 2, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward, slope.contiguous(),
            "grad_out", query, key, value, output, logsumexp, is_causal=True, dropout_p=0.0)


class SharedSequence(gpt_modules.WholeSequence):
    """A sequence that is divided among ranks. A rank has one piece, or with balance=on an early and a late piece."""

    def __init__(self, setup, count):
        # Imported here, because the import takes a second and the other strategies do not need it.
        from torch.distributed.tensor.experimental._context_parallel import _attention as ring
        self.ring, self.group, self.count, world = ring, setup.group, count, setup.world
        balance = setup.flag("balance")
        cuts = 2 * world if balance else world
        if count % cuts:
            raise dpbench.UsageError(f"py-cp cuts the sequence into {cuts} equal parts, and seq={count} is no multiple "
                                     f"of {cuts}: use --model with seq={count + cuts - count % cuts}")
        ring.set_rotate_method(setup.params["rotate"])
        ring._cp_options.enable_load_balance = balance
        ring._cp_options.convert_to_f32 = setup.dtype != torch.float64
        parts = torch.arange(count, device=setup.device).chunk(cuts)
        pairs = [[parts[rank], parts[-1 - rank]] if balance else [parts[rank]] for rank in range(world)]
        self.mine, self.order = torch.cat(pairs[setup.rank]), torch.argsort(torch.cat(sum(pairs, [])))

    def positions(self, count, device):
        return self.mine

    def attend(self, query, key, value):
        return RingAttention.apply(self.ring, self.group, query.to(value.dtype), key.to(value.dtype), value)

    def dropout(self, layer, x):
        """Applies dropout with this rank's part of the mask of the whole sequence."""
        if layer.rate == 0 or not layer.training:
            return x
        return x * layer(x.new_ones(len(x), self.count, *x.shape[2:]))[:, self.mine]

    def cut(self, tensor):
        return tensor[:, self.mine]

    def join(self, own):
        """Returns the tokens of all ranks in the order of the sequence."""
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, own, group=self.group)
        return torch.cat(parts, 1)[:, self.order]


@dpbench.strategy("py-cp", cuda=False, collective_evaluation=True, axes=["cp"],
                  params=[("rotate", "allgather", "how keys and values reach the other ranks", "allgather|alltoall"),
                          ("balance", "on", "each rank has an early and a late piece of the sequence; off: one piece",
                           "on|off")])
class ContextParallel(OneReplica):
    """PyTorch's ring attention, with the tokens of each sample divided"""

    def __init__(self, setup):
        super().__init__(setup)
        shape, weights = gpt_modules.read(setup)
        self.sequence = SharedSequence(setup, shape.seq)
        self.model = gpt_modules.Gpt(setup, shape, weights, sequence=self.sequence)
        self.optimizer = setup.optimizer(self.model.parameters())

    def step(self, step, micro):
        self.optimizer.zero_grad()
        self.model.step = step
        outputs, losses = [], []
        for batch in micro:
            dpbench.phase("forward")
            output, target = self.model(self.sequence.cut(batch.input), batch.ids), self.sequence.cut(batch.target)
            total = nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")
            loss = total / (terms(batch.target) * len(micro))  # the mean over the tokens of all ranks
            dpbench.phase("backward")
            loss.backward()
            outputs.append(output.detach())
            losses.append(loss.detach())
        dpbench.phase("communication")
        parts = [sum(losses), *(tensor.grad for tensor in self.model.parameters())]
        flat = torch.cat([part.flatten() for part in parts])
        dist.all_reduce(flat, group=self.setup.group)
        for part, total in zip(parts, flat.split([part.numel() for part in parts])):
            part.copy_(total.view_as(part))
        self.update(step)
        return lambda: torch.cat([self.sequence.join(output) for output in outputs]), parts[0]

    def evaluate(self, words):
        self.model.eval()
        output = self.sequence.join(self.model(self.sequence.cut(words)))
        self.model.train()
        return output


# kind: PyTorch's class. stages: of each rank; "one", "loop" (rank r of n has r, r + n, ..) or "v" (r and 2n - 1 - r).
# per_rank: a step needs this many micro-batches for each rank. rounds: the micro-batches must form equal rounds.
Schedule = namedtuple("Schedule", "kind stages per_rank rounds", defaults=(0, False))
SCHEDULES = {"gpipe": Schedule(pipelining.ScheduleGPipe, "one"),
             "1f1b": Schedule(pipelining.Schedule1F1B, "one", per_rank=1),
             "looped-bfs": Schedule(pipelining.ScheduleLoopedBFS, "loop"),
             "interleaved": Schedule(pipelining.ScheduleInterleaved1F1B, "loop", rounds=True),
             "interleaved-zb": Schedule(pipelining.ScheduleInterleavedZeroBubble, "loop", rounds=True),
             "zbv": Schedule(pipelining.ScheduleZBVZeroBubble, "v"),
             "dualpipev": Schedule(pipelining.ScheduleDualPipeV, "v", per_rank=2)}


class Stages(nn.ModuleList):
    """The stages of a rank as one module. Its parameters have their names in the whole model."""

    def named_parameters(self, *args, **options):
        return (item for stage in self for item in stage.named_parameters(*args, **options))


@dpbench.strategy("py-pp", cuda=False, collective_evaluation=True, axes=["pp"],
                  params=[("schedule", "1f1b", "PyTorch's schedule", "|".join(SCHEDULES)),
                          ("stages", "2", "stages of each rank, with looped-bfs, interleaved and interleaved-zb",
                           "integer from 1"),
                          ("microbatches", "8", "parts into which each micro-batch of a step (--accumulate) is cut; "
                           "fewer if they would be uneven", "integer from 1")])
class Pipeline(OneReplica):
    """PyTorch's torch.distributed.pipelining"""

    def __init__(self, setup):
        super().__init__(setup)
        self.schedule, world = SCHEDULES[setup.params["schedule"]], setup.world
        self.dtype = torch.float32 if setup.dtype == torch.bfloat16 else setup.dtype
        self.shape, weights = gpt_modules.read(setup)
        self.count = count = world * {"one": 1, "loop": self.positive("stages"), "v": 2}[self.schedule.stages]
        if count > self.shape.layers:
            raise dpbench.UnsuitableModel(f"py-pp: {count} stages need {count} layers, and the model has "
                                          f"{self.shape.layers}: use --model with layers={count} or more")
        if self.shape.tied and count > 1:
            raise dpbench.UsageError("py-pp: the head is in the last stage and cannot share the weight of the "
                                     "embedding, which is in the first: use --model with tied=off")
        cuts = [number * self.shape.layers // count for number in range(count + 1)]
        self.stages = {number: gpt_modules.Gpt(setup, self.shape, weights, range(cuts[number], cuts[number + 1]),
                                               first=number == 0, last=number == count - 1)
                       for number in range(count) if self.owner(number) == setup.rank}
        self.model, self.schedules = Stages(self.stages.values()), {}
        self.limit = self.positive("microbatches")
        self.optimizer = self.setup.optimizer(self.model.parameters())

    def positive(self, name):
        value = int(self.setup.params[name])
        if value < 1:
            raise dpbench.UsageError(f"py-pp.{name}={value} must be 1 or more")
        return value

    def owner(self, stage):
        """Returns the rank of a stage. In a V, the first rank has the first and the last stage."""
        in_a_v = self.schedule.stages == "v"
        return min(stage, 2 * self.setup.world - 1 - stage) if in_a_v else stage % self.setup.world

    def micro_batches(self, batches, rows):
        """Returns the number of micro-batches of the pipeline for this many batches, each of `rows` samples."""
        world, least = self.setup.world, self.schedule.per_rank * self.setup.world
        counts = [batches * parts for parts in range(1, min(rows, self.limit) + 1) if rows % parts == 0]
        counts = [count for count in counts if count >= least and
                  (not self.schedule.rounds or count < world or count % (count // world) == 0)]
        if not counts:
            multiple = max(least, world)
            raise dpbench.UsageError(f"py-pp.schedule={self.setup.params['schedule']} cannot cut {batches} times {rows}"
                                     f" samples into micro-batches for {world} ranks: use --batch or --accumulate with "
                                     f"a multiple of {multiple}, and py-pp.microbatches={multiple} or more, or "
                                     "--param py-pp.schedule=gpipe")
        return counts[-1]

    def schedule_of(self, batches, rows):
        """Returns the schedule for this many batches, each of `rows` samples. Its buffers fit only this shape."""
        if (batches, rows) not in self.schedules:
            setup, shape, count = self.setup, self.shape, self.micro_batches(batches, rows)
            words, hidden, logits = (
                torch.zeros(batches * rows // count, shape.seq, *width, dtype=kind, device="meta")
                for width, kind in (((), torch.long), ((shape.hidden,), self.dtype), ((shape.vocab,), self.dtype)))
            stages = [pipelining.PipelineStage(stage, number, self.count, setup.device, group=setup.group,
                                               input_args=words if number == 0 else hidden,
                                               output_args=logits if number == self.count - 1 else hidden)
                      for number, stage in self.stages.items()]
            for stage in stages:  # the first messages in a V are from a rank to itself, which gloo cannot send
                stage._get_init_p2p_neighbors_ops = list
            self.schedules[batches, rows] = self.schedule.kind(
                stages[0] if self.schedule.stages == "one" else stages, count, loss_fn=self.loss, scale_grads=False)
        return self.schedules[batches, rows]

    def loss(self, output, target):
        """Returns a micro-batch's part of the loss. The last stage computes micro-batches in order, as self.weights."""
        return self.setup.loss(output, target) * next(self.weights)

    def step(self, step, micro):
        self.optimizer.zero_grad()
        for stage in self.model:
            stage.step = step
        dpbench.phase("forward")
        even = len({len(batch.ids) for batch in micro}) == 1
        groups = [micro] if even else [[batch] for batch in micro]
        results = [self.run(batches, len(micro)) for batches in groups]
        dpbench.phase("communication")
        last, setup = self.owner(self.count - 1), self.setup
        loss = sum((loss for _, loss in results), torch.zeros((), dtype=self.dtype, device=setup.device))
        dist.broadcast(loss, src=last, group=setup.group)
        self.update(step)
        output = torch.cat([output for output, _ in results]) if setup.rank == last else torch.zeros(())
        return lambda: self.share(output, last), loss

    def run(self, batches, of):
        """Runs the schedule on `batches`, which have equally many samples. of: number of batches in the whole step.
        Returns the output and the loss on the rank of the last stage, and (None, 0) on other ranks."""
        schedule, losses = self.schedule_of(len(batches), len(batches[0].ids)), []
        words, targets, ids = (torch.cat(parts) for parts in zip(*batches))
        count = self.micro_batches(len(batches), len(batches[0].ids)) // len(batches)
        self.weights = iter([terms(part) / terms(batch.target) / of for batch in batches
                             for part in batch.target.tensor_split(count)])
        last = self.count - 1 in self.stages
        output = schedule.step(*([words] if 0 in self.stages else []), ids=ids,
                               **({"target": targets, "losses": losses} if last else {}))
        return (output.detach(), torch.stack(losses).sum().detach()) if last else (None, 0)

    def clip(self):
        if self.setup.clip_norm is not None:
            squares = sum(tensor.grad.double().square().sum() for tensor in self.model.parameters())
            dist.all_reduce(squares, group=self.setup.group)
            self.clip_to(self.model.parameters(), squares.sqrt())

    def evaluate(self, words):
        x = words
        for number in range(self.count):
            if number in self.stages:
                stage = self.stages[number].eval()
                x = stage(x)
                stage.train()
            x = self.share(x, self.owner(number))
        return x

    def everywhere(self, mine):
        """Returns the tensors of all ranks, by name, on every rank."""
        return {name: self.share(mine.get(name, torch.zeros(())), rank)
                for rank in range(self.setup.world) for name in self.share_object(list(mine), rank)}

    def parameters(self):
        return self.everywhere(super().parameters())

    def gradients(self):
        return self.everywhere(super().gradients())

    def state(self):
        return self.everywhere(super().state())

    def kept_tensors(self):
        return super().parameters(), self.buffers(), super().gradients(), super().state()

    def load(self, parameters, buffers, state):
        own = dict(self.model.named_parameters())
        super().load({name: parameters[name] for name in own}, {},
                     {name: tensor for name, tensor in state.items() if name.rsplit(".", 1)[0] in own})
