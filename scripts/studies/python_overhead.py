"""A training program that runs in two ways: as a plug-in of dpbench (strategy overhead-ddp, workload overhead-mlp), or
alone under torchrun, where it prints the microseconds per step of the slowest rank in each block."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dpbench

BATCH, SAMPLES, RATE = 64, 8192, 0.01


@dpbench.workload("overhead-mlp", batch=BATCH, learning_rate=RATE)
class Mlp:
    """the layers of mnist-mlp in torch.nn, on random images"""
    samples = SAMPLES

    def __init__(self):
        drawn = torch.Generator().manual_seed(1)
        self.images = torch.rand(SAMPLES, 1, 28, 28, generator=drawn)
        self.labels = torch.randint(0, 10, (SAMPLES,), generator=drawn)

    def model(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)

    def batch(self, ids):
        return self.images[ids], self.labels[ids]


@dpbench.strategy("overhead-ddp", buffers="rank0")
class Ddp(dpbench.Strategy):
    """DistributedDataParallel as a user writes it"""

    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.ddp = DistributedDataParallel(self.model, process_group=setup.group)
        self.optimizer = setup.optimizer(self.model.parameters())

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro, self.ddp, quiet=self.ddp.no_sync)
        self.update(step)
        return result


def main(blocks, steps):
    cores = sorted(os.sched_getaffinity(0))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world > 1:
        os.sched_setaffinity(0, {cores[rank % len(cores)]})  # pins this rank to a core, as dpbench does
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = Mlp()
    torch.manual_seed(1)
    model = DistributedDataParallel(data.model())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    order = torch.randperm(SAMPLES // world, generator=torch.Generator().manual_seed(2)) * world + rank
    for block in range(-1, blocks):  # block -1 is the warm-up
        dist.barrier()
        begin = time.perf_counter()
        for step in range(steps):
            input, target = data.batch(order[torch.arange(step * BATCH, (step + 1) * BATCH) % len(order)])
            optimizer.zero_grad()
            loss = data.loss(model(input), target)
            loss.backward()
            optimizer.step()
            loss.item()
        took = torch.tensor([(time.perf_counter() - begin) / steps * 1e6])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        if rank == 0 and block >= 0:
            print(f"{took.item():.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
