"""Strategies that average the gradients of three ranks in groups that they make themselves."""
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import dpbench


class Averaged(dpbench.Strategy):
    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        for tensor in [*self.model.parameters(), *self.model.buffers()]:
            dist.broadcast(tensor.data, src=0)
        self.optimizer = setup.optimizer(self.model.parameters())
        self.make_groups()

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro)
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                self.sum(parameter.grad)
                parameter.grad /= self.setup.world
        self.update(step)
        return result


@dpbench.strategy("in-new-groups", buffers="local")
class InNewGroups(Averaged):
    """sums over ranks 0 and 1, then over ranks 1 and 2, then gives rank 0 the result of rank 1"""

    def make_groups(self):
        self.first, self.last, self.back = (dist.new_group(ranks) for ranks in ([0, 1], [1, 2], [0, 1]))

    def sum(self, gradient):
        rank = self.setup.rank
        if rank < 2:
            dist.all_reduce(gradient, group=self.first)
        if rank > 0:
            dist.all_reduce(gradient, group=self.last)
        if rank < 2:
            dist.broadcast(gradient, src=1, group=self.back)


@dpbench.strategy("in-a-new-mesh", buffers="local")
class InANewMesh(Averaged):
    """sums over both axes of a mesh of init_device_mesh, one of which has all ranks"""

    def make_groups(self):
        mesh = init_device_mesh("cpu", (1, self.setup.world), mesh_dim_names=("one", "all"))
        self.axes = [mesh.get_group(name) for name in ("one", "all")]

    def sum(self, gradient):
        for group in self.axes:
            dist.all_reduce(gradient, group=group)
