"""Models and data written in Python, for strategies in C++ and Python."""
import threading

import torch
from torch import nn
from torch.utils.data import default_collate

from dpbench import bridge, packing, registration
from dpbench.errors import UsageError

ops = torch.ops.dpbench
alive = {}     # {number: model}
last = 0
instances = {}  # workloads by number, made when first needed
# Held while a model is built, because its constructor draws from torch's global generator, and while a model runs that
# draws from it too.
drawing = threading.Lock()


def fields_of(number, entry):
    """Returns a workload's registered fields. If the number of samples is not among them, takes it from the attribute
    `samples` or from data()."""
    fields = dict(entry.fields)
    instance = instance_of(number).user
    if "samples" not in fields:
        if not hasattr(instance, "samples") and not hasattr(instance, "data"):
            raise UsageError(f"workload '{fields['name']}' has neither samples nor data()")
        fields["samples"] = str(instance.samples if hasattr(instance, "samples") else len(instance.data_set))
    for method in ("model", "loss"):
        if not callable(getattr(instance, method, None)):
            raise UsageError(f"workload '{fields['name']}' has no method {method}()")
    fields["own_loss_terms"] = registration.text_of(hasattr(instance, "loss_terms"))
    return fields


def instance_of(number):
    if number not in instances:
        instance = registration.workloads[number].cls()
        if not hasattr(instance, "batch"):
            if not hasattr(instance, "data"):
                raise UsageError(f"workload '{registration.workloads[number].fields['name']}' has neither batch(ids) nor data()")
            instance.data_set = instance.data()
            instance.batch = lambda ids: collated(instance.data_set, ids)
        instances[number] = Hosted(instance)
    return instances[number]


def collated(data_set, ids):
    return default_collate([data_set[int(i)] for i in ids])


def own_optimizer(number, parameters, rate, **options):
    return registration.workloads[number].optimizer(parameters, lr=rate, **options)


def slots_of(entries):
    """Returns the tensors of an optimizer's state for one parameter, by slot."""
    for slot, entry in entries.items():
        if not isinstance(entry, (torch.Tensor, type(None))):
            raise UsageError(f"the state '{slot}' of the workload's own optimizer is {type(entry).__name__}. dpbench "
                             "saves, loads and judges tensors alone: keep it in a tensor")
    return {slot: entry for slot, entry in entries.items() if entry is not None}


class Hosted:
    """A user's workload, with objects that pack its inputs, targets and outputs into single tensors."""

    def __init__(self, user):
        self.user, self.input, self.target, self.output = user, packing.Data(), packing.Data(), packing.Output()

    def batch(self, method, ids):
        input, target = method(ids)
        return self.input.pack(input), self.target.pack(target)

    def loss(self, output, target):
        return self.user.loss(self.output.unpack(output), self.target.unpack(target, output.dtype))


class HostedModel(nn.Module):
    """A user's module, with the step and the seed on which its dropout masks depend."""

    def __init__(self, module, workload):
        super().__init__()
        object.__setattr__(self, "module", module)  # not registered as a submodule, so that parameters keep their names
        self.workload, self._blocks = workload, blocks_of(module)
        self._modules, self._parameters, self._buffers = module._modules, module._parameters, module._buffers
        self.step, self._seed, self._lent = 0, 0, None
        # Whether a block that has run, or the whole module (None), draws from torch's global generator, in training or not.
        self._draws = {}

    def forward(self, input, ids=None):
        return self.run(None, lambda: self.whole_forward(input, ids))

    def block_forward(self, number, x, ids):
        return self.run(number, lambda: self.forward_of_block(number, x, ids))

    def run(self, block, forward):
        """Calls a forward pass. One that draws from torch's global generator holds the lock, so that it cannot change the
        numbers of a model that another thread builds."""
        key = block, self.training
        if not self._draws.get(key, True):
            return forward()
        with drawing:
            before = torch.random.get_rng_state()
            result = forward()
            self._draws[key] = self._draws.get(key, False) or not torch.equal(before, torch.random.get_rng_state())
        return result

    def whole_forward(self, input, ids):
        context.step, context.seed, context.ids = self.step, self._seed, ids
        value = self.unpacked(input)
        called = self.module(**value) if isinstance(value, dict) else self.module(*value) if isinstance(value, tuple) else self.module(value)
        return self.workload.output.pack(called)

    def forward_of_block(self, number, x, ids):
        context.step, context.seed, context.ids = self.step, self._seed, ids
        x = self.unpacked(x) if number == 0 else x
        for name in self._blocks[number]:
            x = self._modules[name](x)
        if number + 1 == len(self._blocks):
            return self.workload.output.pack(x)
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"the child {self._blocks[number][-1]} of the nn.Sequential returned a {type(x).__name__}: "
                            "a strategy that divides the model needs a tensor")
        return x

    def unpacked(self, input):
        if not self.workload.input.forms:
            return input
        dtype = next((tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point()), torch.float32)
        return self.workload.input.unpack(input, dtype)

    def train(self, mode=True):
        self.module.train(mode)
        self.training = mode
        return self

    def __del__(self):
        if self._lent is not None:
            ops.drop_model.default(self._lent)


def blocks_of(module):
    """Returns the names of the children in each block of an nn.Sequential: each block has one child with parameters.
    Other modules have no blocks, because dpbench does not know in which order they call their children."""
    if getattr(module.forward, "__func__", None) is not nn.Sequential.forward or module._parameters or module._buffers:
        return []
    blocks, learns = [[]], False
    for name, child in module._modules.items():
        if next(child.parameters(), None) is not None:
            if learns:
                blocks.append([])
            learns = True
        blocks[-1].append(name)
    return blocks if blocks[0] else []


context = threading.local()  # step, seed and sample ids of this thread's forward pass


class KeyedDropout(nn.Module):
    """Replaces nn.Dropout. The mask depends on the sample, not on the order in which ranks draw random numbers."""

    def __init__(self, rate, layer):
        super().__init__()
        self.rate, self.layer = rate, layer

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        if x.shape[0] != context.ids.shape[0]:
            raise UsageError(f"dropout of a tensor {list(x.shape)}: the first dimension must be the samples, {context.ids.shape[0]}")
        return ops.dropout.default(x, context.ids, context.step, context.seed, self.layer, self.rate)


def prepared(module, smooth):
    """Replaces layers that the checks cannot judge: dropout with masks that depend on the order of samples, and, if
    `smooth` is true, ReLU."""
    if isinstance(module, (nn.Dropout, nn.ReLU)):  # the model itself is a layer to replace
        module = nn.Sequential(module)
    layer = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Dropout) and child.p > 0:
                setattr(parent, name, KeyedDropout(child.p, layer))
                layer += 1
            elif smooth and isinstance(child, nn.ReLU):
                setattr(parent, name, nn.Softplus())
    return module


def lend(own, number, seed):
    """Returns the Python model that is stored under the key `own`, for a strategy in Python. number: the number under
    which dpbench's library knows the model. seed: the seed of its dropout masks."""
    model = alive[own]
    model._lent, model._seed = number, seed
    return model


@bridge.handler
def model(workload, seed):
    global last
    (smooth,) = ops.given_numbers.default()
    with drawing, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = prepared(instance_of(workload).user.model(), bool(smooth))
        last += 1
        number = last
    if not isinstance(module, nn.Module):
        raise TypeError(f"model() must return an nn.Module, not {type(module).__name__}")
    hosted = alive[number] = HostedModel(module, instance_of(workload))
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    bridge.answer([*parameters.values(), *buffers.values()], [*parameters, *buffers])
    ops.answer_numbers.default([number, len(parameters), *map(len, hosted._blocks)])
    ops.answer_texts.default([name for block in hosted._blocks for name in block])


@bridge.handler
def drop_model(number, _):
    alive.pop(number, None)


@bridge.handler
def model_forward(number, step):
    input, ids = bridge.given()
    hosted = alive[number]
    hosted.step, (hosted._seed,) = step, ops.given_numbers.default()
    bridge.answer([hosted(input, ids)])


@bridge.handler
def block_forward(number, step):
    x, ids = bridge.given()
    hosted = alive[number]
    hosted.step, (hosted._seed, block) = step, ops.given_numbers.default()
    bridge.answer([hosted.block_forward(block, x, ids)])


@bridge.handler
def model_train(number, on):
    alive[number].train(bool(on))


@bridge.handler
def loss(workload, _):
    output, target = bridge.given()
    bridge.answer([instance_of(workload).loss(output, target)])


@bridge.handler
def loss_terms(workload, _):
    hosted = instance_of(workload)
    (target,) = bridge.given()
    ops.answer_numbers.default([int(hosted.user.loss_terms(hosted.target.unpack(target, torch.float32)))])


@bridge.handler
def batch(workload, _):
    (ids,) = bridge.given()
    hosted = instance_of(workload)
    bridge.answer(hosted.batch(hosted.user.batch, ids))


@bridge.handler
def test_batch(workload, _):
    (ids,) = bridge.given()
    hosted = instance_of(workload)
    bridge.answer(hosted.batch(hosted.user.test_batch, ids))


@bridge.handler
def optimizer_step(workload, _):
    """Steps a copy of one parameter by the workload's own optimizer, from a given state."""
    parameter, gradient, rate, *state = bridge.given()
    parameter = nn.Parameter(parameter.detach().clone())
    parameter.grad = gradient
    optimizer = own_optimizer(workload, [parameter], rate.item())
    for slot, tensor in zip(ops.given_texts.default(), state):
        optimizer.state[parameter][slot] = tensor.clone()
    optimizer.step()
    found = slots_of(optimizer.state[parameter])
    bridge.answer([*found.values(), parameter.detach()], [*found])
