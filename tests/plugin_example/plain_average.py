"""The smallest complete data-parallel strategy in Python: an all-reduce of each gradient. "plain-average" divides by the
number of ranks, as both strategies promise; "plain-sum" does not."""
import torch.distributed as dist

import dpbench


@dpbench.strategy("plain-average", gradient="mean_of_means", buffers="local")
class Plain(dpbench.Strategy):
    """an all-reduce of each gradient"""
    divides = True

    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.optimizer = setup.optimizer(self.model.parameters())
        for tensor in self.model.state_dict(keep_vars=True).values():
            dist.broadcast(tensor.data, src=0)

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro)
        dpbench.phase("communication")
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                if self.divides:
                    parameter.grad /= self.setup.world
        self.update(step)
        return result


@dpbench.strategy("plain-sum", gradient="mean_of_means", buffers="local")
class Sum(Plain):
    """sums the gradients over ranks but forgets to divide"""
    divides = False
