"""Measures the training steps of dpbench's built-in workloads in Python, with PyTorch's own classes, for comparison.

Prints one JSON object: microseconds per step of the slowest rank, for every timed block of steps. One thread per rank;
batches are in memory, so no data loader is measured. --fused uses torch's fused optimizers.
"""
import argparse
import json
import os
import resource
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class MnistMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.n(x)


def convnet():
    def norm(channels):
        layer = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
        layer.weight.requires_grad_(False)
        return layer

    class Scale(nn.Module):
        def forward(self, x):
            return x / 255.0

    return nn.Sequential(
        Scale(), nn.Conv2d(1, 12, 3, padding=1, bias=False), norm(12), nn.ReLU(),
        nn.Conv2d(12, 24, 6, stride=2, bias=False), norm(24), nn.ReLU(),
        nn.Conv2d(24, 32, 6, stride=2, padding=2), norm(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))


class GptLayer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.queries_keys_values, self.mixed = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate="tanh"), nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        rows, tokens, hidden = x.shape
        heads = self.queries_keys_values(self.before_attention(x)).view(rows, tokens, 3, self.heads, hidden // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mixed(found.transpose(1, 2).reshape(rows, tokens, hidden))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    """dpbench's model gpt in PyTorch. One matrix product computes queries, keys and values."""

    def __init__(self, vocabulary, tokens, layers, hidden, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(tokens, hidden)
        self.layers = nn.Sequential(*[GptLayer(hidden, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.layers(x))).flatten(0, 1)


def gpt_batch(rows, vocabulary=256, tokens=128):
    ids = torch.randint(0, vocabulary, (rows, tokens + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].flatten()


def adamw(parameters, lr, fused):
    parameters = list(parameters)
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=fused)


# {name: (model, function that makes a batch, loss, optimizer)}
WORKLOADS = {
    "random-linear": (lambda: nn.Linear(5, 2), lambda b: (torch.randn(b, 5), torch.randn(b, 2)), nn.MSELoss, "sgd"),
    "mnist-mlp": (MnistMlp, lambda b: (torch.rand(b, 1, 28, 28), torch.randint(0, 10, (b,))), nn.CrossEntropyLoss, "sgd"),
    "convnet": (convnet, lambda b: (torch.rand(b, 1, 28, 28) * 255, torch.randint(0, 10, (b,))), nn.CrossEntropyLoss, "adam"),
    "gpt": (lambda: Gpt(256, 128, 4, 128, 4), gpt_batch, nn.CrossEntropyLoss, "adamw"),  # the model `small` of dpbench
    "gpt2-124m": (lambda: Gpt(50257, 1024, 12, 768, 12), lambda b: gpt_batch(b, 50257, 1024), nn.CrossEntropyLoss, "adamw"),
}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": adamw}


def shard(model, reshard):
    """Returns the model under FSDP2: a unit for each layer of gpt, the rest in the root."""
    from torch.distributed.fsdp import fully_shard
    for layer in getattr(model, "layers", []):
        fully_shard(layer, reshard_after_forward=reshard)
    return fully_shard(model)


def train(rank, args, store, queue):
    torch.set_num_threads(1)
    if args.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    make_model, make_batch, make_loss, optimizer_name = WORKLOADS[args.workload]
    model = make_model()
    distributed = args.strategy != "cpu"
    if distributed:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=args.world)
    if args.strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if args.strategy == "fsdp2":
        model = shard(model, args.reshard)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters(), lr=1e-3, fused=args.fused)
    loss_of = make_loss()
    batches = [make_batch(args.batch) for _ in range(8)]

    def block(steps):
        if distributed:
            dist.barrier()
        start = time.perf_counter()
        for step in range(steps):
            inputs, targets = batches[step % len(batches)]
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
        return (time.perf_counter() - start) / steps * 1e6

    block(args.warmup)
    queue.put(([block(args.steps) for _ in range(args.samples)], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    if distributed:
        dist.barrier()
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--strategy", choices=["cpu", "ddp", "fsdp2"], default="cpu")
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="samples per rank")
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--reshard", action="store_true", help="fsdp2: free layers after their forward pass")
    parser.add_argument("--pin", action="store_true", help="pin each rank to a core")
    args = parser.parse_args()
    context = mp.get_context("spawn")
    queue = context.Queue()
    with tempfile.TemporaryDirectory() as directory:
        ranks = [context.Process(target=train, args=(rank, args, f"{directory}/store", queue)) for rank in range(args.world)]
        for process in ranks:
            process.start()
        samples, peaks = zip(*[queue.get() for _ in ranks])
        for process in ranks:
            process.join()
    print(json.dumps({"torch": torch.__version__, "step_us": [max(rank) for rank in zip(*samples)], "peak_rss_bytes": max(peaks)}))


if __name__ == "__main__":
    main()
