"""Wraps models written in C++ as Python modules."""
import torch
from torch import nn

ops = torch.ops.dpbench


def put(root, path, value, kind):
    """Puts a tensor into the module's tree under its dotted name. Accepts every name, even one that nn.Module refuses
    because it has a method of that name, such as "half"."""
    *parents, name = path.split(".")
    module = root
    for parent in parents:
        if parent not in module._modules:
            module._modules[parent] = nn.Module()
        module = module._modules[parent]
    getattr(module, kind)[name] = value


class Model(nn.Module):
    """A Python module with the parameters, buffers and forward pass of a C++ model."""

    def __init__(self, number, step_seed):
        super().__init__()
        self._number, self._seed, self.step = number, step_seed, 0
        names, tensors, buffer_names, buffers = ops.tensors.default(number)
        for name, tensor in zip(names, tensors):
            tensor.__class__ = nn.Parameter  # nn.Parameter(tensor) would be another leaf, which gets no gradient
            put(self, name, tensor, "_parameters")
        for name, tensor in zip(buffer_names, buffers):
            put(self, name, tensor, "_buffers")

    def forward(self, input, ids):
        return ops.forward.default(self._number, input, ids, self.step, self._seed)

    def train(self, mode=True):
        ops.train.default(self._number, mode)
        return super().train(mode)

    def __del__(self):
        ops.drop_model.default(self._number)


class ReplaceableModel(Model):
    """A C++ model that computes with the module's current parameters, even if a wrapper has replaced them."""

    def __init__(self, number, step_seed):
        super().__init__(number, step_seed)
        self._names, self._own, copies = [], [], {}
        for name, tensor in dict(self.named_parameters(remove_duplicate=False)).items():
            if id(tensor) not in copies:
                copies[id(tensor)] = nn.Parameter(tensor.detach().clone(), requires_grad=tensor.requires_grad)
                self._names.append(name)
                self._own.append(tensor)
            put(self, name, copies[id(tensor)], "_parameters")

    def forward(self, input, ids):
        present = dict(self.named_parameters(remove_duplicate=False))
        return Through.apply(self, input, ids, *(present[name] for name in self._names))


class Through(torch.autograd.Function):
    """Runs a C++ model's forward pass with other parameters than its own. These parameters get the gradients."""

    @staticmethod
    def forward(ctx, model, input, ids, *parameters):
        for own, other in zip(model._own, parameters):
            own.data = other.detach()
        with torch.enable_grad():
            ctx.output = ops.forward.default(model._number, input, ids, model.step, model._seed)
        ctx.own = [own for own in model._own if own.requires_grad]
        ctx.wanted = [own.requires_grad for own in model._own]
        return ctx.output.detach()

    @staticmethod
    def backward(ctx, slope):
        found = iter(torch.autograd.grad(ctx.output, ctx.own, slope, allow_unused=True))
        return None, None, None, *(next(found) if wanted else None for wanted in ctx.wanted)
