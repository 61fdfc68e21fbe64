"""The Python interface of a strategy: its arguments (Setup, Batch) and its base class (Strategy)."""
import contextlib
import functools
from collections import namedtuple

import torch

from dpbench import bridge, groups, hosted_models, models, registration
from dpbench.errors import UsageError

ops = torch.ops.dpbench
DTYPES = {5: torch.float16, 6: torch.float32, 7: torch.float64, 15: torch.bfloat16}  # {value of at::ScalarType: dtype}

Batch = namedtuple("Batch", "input target ids")
Axis = namedtuple("Axis", "name group rank size")  # group: None if the axis has one rank


def phase(name):
    """Charges the time from now on to a phase of the step: data, forward, backward, communication, optimizer or
    waiting."""
    bridge.native.dpbench_enter_phase(phases()[name])


@functools.cache
def phases():
    return {name: number for number, name in enumerate(ops.phases.default())}


class Setup:
    """The setup of a strategy on one rank: the workload's model and loss, the ranks, and the parameter values."""

    def __init__(self, number):
        numbers, reals, texts = ops.setup.default(number)
        self._number = groups.strategy = number
        (self.rank, self.world, self.init_seed, self.step_seed, dtype, self.accumulate, clips, self.sum_loss,
         axes, self._workload, self._scheduled, hosted) = numbers[:12]
        self._hosted = hosted_models.instance_of(hosted) if hosted >= 0 else None
        clip_norm, self.learning_rate, beta1, beta2, self.epsilon, self.weight_decay, self.momentum = reals
        self.clip_norm = clip_norm if clips else None
        self.betas, self.dtype = (beta1, beta2), DTYPES[dtype]
        self.strategy, self.optimizer_kind, self._group_name, device = texts[:4]
        self.device = torch.device(device)
        self._axes = [(texts[4 + 2 * i], texts[5 + 2 * i], *numbers[12 + 2 * i:14 + 2 * i]) for i in range(axes)]
        self.params = dict(text.split("=", 1) for text in texts[4 + 2 * axes:])
        self._adopted = {}
        # The group of all ranks, over the backend of the run. It is torch.distributed's default group, too.
        self.group = self._adopt(self._group_name, self.rank, self.world, None) if self._group_name else None

    def flag(self, name):
        """Returns the value of a switch among the parameters."""
        return self.params[name] in ("on", "true", "1")

    @property
    def axes(self):
        """The axes of the mesh by name, in order. Without --mesh, the only axis is "dp" and has all ranks."""
        found, stride = {}, 1
        for name, group_name, rank, size in reversed(self._axes):
            members = [self.rank + (place - rank) * stride for place in range(size)]
            shared = group_name == self._group_name
            group = self._adopt(group_name, rank, size, None if shared else members) if group_name else None
            found[name] = Axis(name, group, rank, size)
            stride *= size
        return dict(reversed(found.items()))

    def device_mesh(self):
        """Returns the mesh as a DeviceMesh of torch.distributed, over dpbench's process groups."""
        from torch.distributed.device_mesh import DeviceMesh
        axes = [axis for axis in self.axes.values() if axis.group is not None] or [Axis("dp", self.group, self.rank, self.world)]
        if len(axes) == 1:
            return DeviceMesh.from_group(axes[0].group, self.device.type, mesh_dim_names=(axes[0].name,))
        shape = torch.arange(self.world).view([axis.size for axis in axes])
        return DeviceMesh.from_group([axis.group for axis in axes], self.device.type, mesh=shape,
                                     mesh_dim_names=tuple(axis.name for axis in axes))

    def _adopt(self, name, rank, size, members):
        if name not in self._adopted:
            self._adopted[name] = groups.adopt(name, rank, size, members)
        return self._adopted[name]

    def _leave(self):
        groups.forget_new_groups()
        for group in self._adopted.values():
            groups.forget(group)
        self._adopted.clear()

    def model(self, replaceable=False):
        """Returns a new model of the workload with this rank's initial weights. Call it as model(batch.input, batch.ids)
        after setting model.step. replaceable: needed if a wrapper replaces the parameters of a model written in C++, as
        fully_shard does; such a model otherwise computes with its original tensors."""
        number = ops.model.default(self._number)
        if own := ops.number_in_python.default(number):
            if ops.recompute.default(number):  # only strategies in C++ call the model block by block
                raise UsageError(f"{self.strategy} recomputes nothing: leave out --recompute")
            return hosted_models.lend(own, number, self.step_seed)
        return (models.ReplaceableModel if replaceable else models.Model)(number, self.step_seed)

    def optimizer(self, parameters, **options):
        """Returns the workload's optimizer for these parameters (or this dictionary of parameters by name)."""
        parameters = list(parameters.values() if isinstance(parameters, dict) else parameters)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if self.optimizer_kind == "own":
            return hosted_models.own_optimizer(self._workload, trained, self.learning_rate, **options)
        if self.optimizer_kind == "sgd":
            return torch.optim.SGD(trained, lr=self.learning_rate, momentum=self.momentum, **options)
        options = {"fused": True, **options}
        return torch.optim.AdamW(self.decay_groups(trained), lr=self.learning_rate, betas=self.betas, eps=self.epsilon, **options)

    def decay_groups(self, parameters):
        """Returns these parameters as groups for AdamW: those of two or more dimensions decay, the others do not."""
        groups = [{"params": [p for p in parameters if (p.dim() >= 2) == matrix], "weight_decay": self.weight_decay if matrix else 0}
                  for matrix in (True, False)]
        return [group for group in groups if group["params"]]

    def schedule(self, optimizer, step):
        """Sets the optimizer's learning rate to the value that the workload's schedule has in this step."""
        if self._scheduled:
            for group in optimizer.param_groups:
                group["lr"] = ops.learning_rate.default(self._number, step)

    def loss(self, output, target):
        if self._hosted:  # the workload is written in Python, too
            return self._hosted.loss(output, target)
        return ops.loss.default(self._number, output, target)

    def clip(self, parameters):
        """Limits the norm of all gradients to --clip-norm, if it is given."""
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.clip_norm)

    def autocast(self):
        """Returns the context of a forward pass: autocast if the dtype is bfloat16, otherwise a null context. Each use
        of a weight casts it anew, as in dpbench's own strategies: with autocast's cache, the gradients of several uses
        would be added in bfloat16."""
        if self.dtype != torch.bfloat16:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)


def joined_samples(parts):
    """Concatenates tensors of samples. batch() may pad its samples to the longest of them. So the samples of two
    batches may have different shapes: smaller ones are padded with zeros."""
    if len({part.shape[1:] for part in parts}) == 1:
        return torch.cat(parts)
    largest = [max(sizes) for sizes in zip(*(part.shape[1:] for part in parts))]
    missing = [[size - own for size, own in zip(largest, part.shape[1:])] for part in parts]
    return torch.cat([torch.nn.functional.pad(part, [n for size in reversed(lacks) for n in (0, size)])
                      for part, lacks in zip(parts, missing)])


class Strategy:
    """Base class of strategies. A strategy sets self.model and self.optimizer and implements step(). A strategy that
    divides tensors between ranks also overrides the methods that return whole tensors."""

    model = optimizer = gather_output = None

    def __init__(self, setup):
        self.setup = setup

    def step(self, step, micro):
        """Trains one step on the micro-batches of this rank. Returns the output of all samples, and the loss. If no rank
        has the whole output, returns a function in its place, which gathers it. dpbench calls the function on all ranks,
        at most once, before the next step, and never in a timed step."""
        raise NotImplementedError("step(self, step, micro)")

    def passes(self, step, micro, model=None, quiet=contextlib.nullcontext):
        """Runs forward and backward pass of each micro-batch. quiet: a context such as no_sync, in which all passes but
        the last run. Returns the output of all samples, and the loss."""
        run, setup = model or self.model, self.setup
        self.model.step = step
        outputs, losses = [], []
        for batch in micro:
            with contextlib.nullcontext() if batch is micro[-1] else quiet():
                phase("forward")
                with setup.autocast():
                    output = run(batch.input, batch.ids)
                output = output.float() if setup.dtype == torch.bfloat16 else output
                loss = setup.loss(output, batch.target)
                if len(micro) > 1:
                    loss = loss / len(micro)
                phase("backward")
                loss.backward()
            outputs.append(output.detach())
            losses.append(loss.detach())
        if len(micro) == 1:
            return outputs[0], losses[0]
        return joined_samples(outputs), sum(losses)

    def update(self, step):
        """Clips the gradients to --clip-norm, sets the step's learning rate, and steps the optimizer."""
        phase("optimizer")
        self.clip()
        self.setup.schedule(self.optimizer, step)
        self.optimizer.step()

    def clip(self):
        """Limits the norm of all gradients to --clip-norm, if it is given."""
        self.setup.clip(self.model.parameters())

    def forward(self, batch):
        """Returns the output in evaluation mode, without gradients."""
        self.model.eval()
        self.model.step = 0
        try:
            with torch.no_grad(), self.setup.autocast():
                output = self.model(batch.input, batch.ids)
        finally:
            self.model.train()
        return output.float() if self.setup.dtype == torch.bfloat16 else output

    def finish(self):
        """The harness calls finish() on every rank after its last step."""

    def parameters(self):
        return dict(self.model.named_parameters(remove_duplicate=False))

    def gradients(self):
        return {name: tensor.grad for name, tensor in self.model.named_parameters() if tensor.requires_grad}

    def buffers(self):
        return dict(self.model.named_buffers(remove_duplicate=False))

    def slots(self):
        """Returns the keys of the torch optimizer's state, by dpbench's names of the same tensors."""
        if self.setup.optimizer_kind == "own":
            return {key: key for state in self.optimizer.state.values() for key in hosted_models.slots_of(state)}
        if self.setup.optimizer_kind == "adam":
            return {"momentum": "exp_avg", "variance": "exp_avg_sq", "step": "step"}
        return {"momentum_buffer": "momentum_buffer"} if self.setup.momentum else {}

    def state(self):
        """Returns the optimizer's state, named "parameter.slot". Tensors of SGD and Adam that the optimizer has not
        created yet are zero."""
        found, slots = {}, self.slots()
        for name, tensor in self.model.named_parameters():
            if tensor.requires_grad:
                entries = self.optimizer.state.get(tensor, {})
                for slot, key in slots.items():
                    entry = entries.get(key)
                    if entry is None and self.setup.optimizer_kind == "own":  # initial value unknown
                        continue
                    found[f"{name}.{slot}"] = entry if entry is not None else (
                        torch.zeros(()) if slot == "step" else torch.zeros_like(tensor.detach()))
        return found

    def kept_tensors(self):
        """Returns parameters, buffers, gradients and state as this rank keeps them between steps, so that a report can
        divide its memory into parts. Override it if the methods of these names return gathered copies."""
        return self.parameters(), self.buffers(), self.gradients(), self.state()

    def load(self, parameters, buffers, state):
        """Restores tensors that parameters(), buffers() and state() have returned earlier."""
        own, own_buffers = dict(self.model.named_parameters(remove_duplicate=False)), dict(self.model.named_buffers(remove_duplicate=False))
        with torch.no_grad():
            for name, tensor in parameters.items():
                own[name].copy_(tensor)
            for name, tensor in buffers.items():
                own_buffers[name].copy_(tensor)
        slots = self.slots()
        for name, tensor in state.items():
            parameter, slot = name.rsplit(".", 1)
            self.optimizer.state[own[parameter]][slots.get(slot, slot)] = tensor.clone()


alive = {}  # {number: strategy}


@bridge.handler
def make(number, _):
    setup = Setup(number)
    entry = next(entry for entry in registration.strategies.values() if entry.fields["name"] == setup.strategy)
    try:
        alive[number] = entry.cls(setup)
    except BaseException:
        setup._leave()
        raise


@bridge.handler
def drop(number, _):
    strategy = alive.pop(number, None)
    if strategy is not None:
        strategy.setup._leave()


def micro_batches():
    tensors = bridge.given()
    return [Batch(*tensors[i:i + 3]) for i in range(0, len(tensors), 3)]


@bridge.handler
def step(number, step_number):
    strategy = alive[number]
    result = strategy.step(step_number, micro_batches())
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], torch.Tensor) and
            (isinstance(result[0], torch.Tensor) or callable(result[0]))):
        raise TypeError(f"step() must return two tensors, the output and the loss, not {described(result)}")
    output, loss = result
    strategy.gather_output = None if isinstance(output, torch.Tensor) else output
    bridge.answer([output.detach() if strategy.gather_output is None else None, loss.detach()])


@bridge.handler
def gather_output(number, _):
    bridge.answer([alive[number].gather_output().detach()])


def described(result):
    if isinstance(result, tuple):
        return "(" + ", ".join(type(part).__name__ for part in result) + ")"
    return type(result).__name__


@bridge.handler
def forward(number, _):
    strategy = alive[number]
    (batch,) = micro_batches()
    output = strategy.forward(batch)
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"forward() must return a tensor, not {described(output)}")
    bridge.answer([output.detach()])


@bridge.handler
def finish(number, _):
    alive[number].finish()


def answer_named(method):
    def answer(number, _):
        found = getattr(alive[number], method)()
        bridge.answer(list(found.values()), list(found))
    answer.__name__ = method
    return bridge.handler(answer)


for method in ("parameters", "gradients", "buffers", "state"):
    answer_named(method)


@bridge.handler
def kept_tensors(number, _):
    kept = alive[number].kept_tensors()
    ops.answer_numbers.default([len(tensors) for tensors in kept])
    bridge.answer([tensor for tensors in kept for tensor in tensors.values()], [name for tensors in kept for name in tensors])


@bridge.handler
def load(number, _):
    names, tensors, counts = ops.given_texts.default(), bridge.given(), ops.given_numbers.default()
    named, parts = list(zip(names, tensors)), []
    for count in counts:
        parts.append(dict(named[:count]))
        named = named[count:]
    alive[number].load(*parts)
