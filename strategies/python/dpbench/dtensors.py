"""Strategies whose parameters PyTorch divides among ranks as DTensors."""
import torch
from torch.distributed.tensor import DTensor, distribute_tensor

import dpbench


def whole(tensor):
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def divided(tensor, like):
    """Divides a copy of a whole tensor among the ranks as `like` is divided. The copy is needed because a replicated
    DTensor shares the memory of the tensor that it is made from."""
    copy = tensor.clone()
    return distribute_tensor(copy, like.device_mesh, like.placements) if isinstance(like, DTensor) else copy


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class DividedStrategy(dpbench.Strategy):
    """Base class of strategies whose parameters are DTensors, or DTensors and plain tensors."""

    def parameters(self):
        return {name: whole(tensor) for name, tensor in super().parameters().items()}

    def gradients(self):
        return {name: whole(tensor) for name, tensor in super().gradients().items()}

    def state(self):
        return {name: whole(tensor) for name, tensor in super().state().items()}

    def kept_tensors(self):
        """Returns this rank's parts of DTensors, without gathering them."""
        kept = super().parameters(), super().buffers(), super().gradients(), super().state()
        with torch.no_grad():
            return tuple({name: local(tensor) for name, tensor in tensors.items()} for tensors in kept)

    def load(self, parameters, buffers, state):
        own = dict(self.model.named_parameters(remove_duplicate=False))
        with torch.no_grad():
            for name, tensor in parameters.items():
                local(own[name]).copy_(local(divided(tensor, own[name])))
            for name, tensor in self.model.named_buffers(remove_duplicate=False):
                tensor.copy_(buffers[name])
        slots = self.slots()
        for name, tensor in state.items():
            parameter, slot = name.rsplit(".", 1)
            entry = divided(tensor, own[parameter]) if tensor.shape == own[parameter].shape else tensor.clone()
            self.optimizer.state[own[parameter]][slots.get(slot, slot)] = entry
