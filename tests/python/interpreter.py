"""Strategies that use the interpreter beside their steps: a thread that runs while the rank waits, and breakpoint()."""
import threading
import time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dpbench


class Plain(dpbench.Strategy):
    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.wrapped = self.model
        self.optimizer = setup.optimizer(self.model.parameters())

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro, self.wrapped)
        self.reduce()
        self.update(step)
        return result

    def reduce(self):
        pass


@dpbench.strategy("stops")
class Stops(Plain):
    """stops in the debugger once, in step 3"""
    stopped = False

    def step(self, step, micro):
        if step == 3 and not Stops.stopped:
            Stops.stopped = True
            print("now in step", step)
            breakpoint()
        return super().step(step, micro)


class Counter(threading.Thread):
    """Thread that increments its count every 10 ms. stop() ends the thread and returns the count."""

    def __init__(self):
        super().__init__()
        self.count, self.stopped = 0, threading.Event()
        self.start()

    def run(self):
        while not self.stopped.wait(0.01):
            self.count += 1

    def stop(self):
        self.stopped.set()
        self.join()
        return self.count


@dpbench.strategy("waits-in-all-reduce")
class WaitsInAllReduce(Plain):
    """rank 1 is late by 1 s in step 3; a thread of rank 0 must run while rank 0 waits in an all-reduce"""

    def __init__(self, setup):
        super().__init__(setup)
        for tensor in self.model.parameters():
            dist.broadcast(tensor.data, src=0)

    def step(self, step, micro):
        if step == 3 and self.setup.rank == 1:
            time.sleep(1)
        counter = Counter() if step == 3 and self.setup.rank == 0 else None
        result = super().step(step, micro)
        if counter and (count := counter.stop()) < 20:
            raise RuntimeError(f"a thread ran {count} times while its rank waited for 1 s")
        return result

    def reduce(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.setup.world


@dpbench.strategy("waits-in-backward")
class WaitsInBackward(WaitsInAllReduce):
    """a thread of rank 0 must run while rank 0 waits in the backward pass of DistributedDataParallel"""

    def __init__(self, setup):
        super().__init__(setup)
        self.wrapped = DistributedDataParallel(self.model, process_group=setup.group)

    def reduce(self):
        pass
