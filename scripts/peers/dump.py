"""Compares the output of `dpbench check --dump DIR` with PyTorch's DistributedDataParallel in float64.

usage: dump.py DIR

Repeats every dumped step of ddp with the same number of Python processes: a torch.nn model with the dumped weights and
samples, one backward pass under DDP over Gloo. Exits 1 if a gradient or an output differs by more than 1e-12 of the largest
element of its tensor.
"""
import json
import os
import sys
import tempfile
from collections import defaultdict

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, relu

BOUND = 1e-12
SCENARIOS = ("even", "uneven", "accumulate")


class KeyedDropout(nn.Module):
    """numpy version of workloads/layers/dropout.cpp: dropout keyed by (seed, step, layer, sample, feature)."""

    def __init__(self, rate, layer):
        super().__init__()
        self.threshold, self.factor, self.layer = round(rate * (1 << 24)), 1 / (1 - rate), layer
        self.seed = self.step = 0
        self.ids = None

    def forward(self, x):
        with np.errstate(over="ignore"):
            key = mix64(mix64(mix64(np.uint64(self.seed)) + np.uint64(self.step)) + np.uint64(self.layer))
            low, high = np.uint32(key & np.uint64(0xFFFFFFFF)), np.uint32(key >> np.uint64(32))
            ids = self.ids.numpy().astype(np.uint64)
            rows = mix32((mix32(ids.astype(np.uint32) ^ low) ^ (ids >> np.uint64(32)).astype(np.uint32)) + high)
            columns = np.arange(x.shape[1], dtype=np.uint32) * np.uint32(0x1E3779B1)
            kept = (mix32(rows[:, None] + columns[None, :]) >> np.uint32(8)) >= self.threshold
        return x * torch.from_numpy(kept).to(x.dtype) * self.factor


def mix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def mix32(x):
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x71262EDB)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x60C9E7CF)
    return x ^ (x >> np.uint32(16))


class RandomLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 2)

    def forward(self, x):
        return self.fc(x)


class MnistMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.n(x)


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(12, 24, 6, stride=2, bias=False)
        self.large_k = nn.Conv2d(24, 32, 6, stride=2, padding=2)
        for i, channels in enumerate((12, 24, 32), 1):
            norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
            norm.weight.requires_grad_(False)
            setattr(self, f"norm{i}", norm)
        self.dense1, self.dropout, self.dense2 = nn.Linear(32, 256), KeyedDropout(0.5, 0), nn.Linear(256, 10)

    def forward(self, x):
        x = x * (1.0 / 255)
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2), (self.large_k, self.norm3)):
            x = relu(norm(conv(x)))
        return self.dense2(self.dropout(relu(self.dense1(x.mean((2, 3))))))


MODELS = {"random-linear": (RandomLinear, mse_loss), "mnist-mlp": (MnistMlp, cross_entropy), "convnet": (Convnet, cross_entropy)}


def fill(model, tensors):
    """Loads the dumped parameters and buffers into the model. Exits unless they cover every trainable parameter and
    running statistic."""
    given = {name.split(".", 1)[1]: value for name, value in tensors.items() if name.startswith(("parameters.", "buffers."))}
    missing, unexpected = model.load_state_dict(given, strict=False)
    lacking = [name for name in missing if not name.endswith(("num_batches_tracked", "norm1.weight", "norm2.weight", "norm3.weight"))]
    if lacking or unexpected:
        raise SystemExit(f"dump.py: the dump lacks {lacking} and has unexpected {unexpected}")


def off(found, expected):
    scale = expected.abs().max().clamp_min(1e-30)
    return ((found - expected).abs().max() / scale).item()


def repeat(rank, directory, store, entries, queue):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=entries[0]["ranks"])
    worst = []
    for entry in (entry for entry in entries if entry["rank"] == rank):
        tensors = load_file(os.path.join(directory, entry["file"]))
        make, loss_of = MODELS[entry["workload"]]
        model = make()
        fill(model, tensors)
        ddp = nn.parallel.DistributedDataParallel(model)
        outputs = []
        for micro in range(entry["accumulate"]):
            rows = {name: tensors[f"batch.{micro}.{name}"] for name in ("input", "target", "ids")}
            if hasattr(model, "dropout"):
                model.dropout.seed, model.dropout.step, model.dropout.ids = entry["step_seed"], entry["step"], rows["ids"]
            target = rows["target"].double() if rows["target"].is_floating_point() else rows["target"]
            ddp.require_backward_grad_sync = micro + 1 == entry["accumulate"]
            outputs.append(ddp(rows["input"].double()))
            (loss_of(outputs[-1], target) / entry["accumulate"]).backward()
        errors = {name: off(tensors["gradients." + name], parameter.grad)
                  for name, parameter in model.named_parameters() if parameter.requires_grad}
        errors["output"] = off(tensors["output"], torch.cat(outputs).detach())
        name = max(errors, key=errors.get)
        worst.append((errors[name], f"{entry['file']}: {name}"))
    queue.put(max(worst))
    dist.barrier()
    dist.destroy_process_group()


def main():
    directory = sys.argv[1]
    with open(os.path.join(directory, "index.json"), encoding="utf-8") as file:
        index = json.load(file)["files"]
    cases = defaultdict(list)
    for entry in index:
        known = entry["strategy"] == "ddp" and entry["workload"] in MODELS and entry["dtype"] == "f64"
        if known and entry["scenario"] in SCENARIOS and not entry["smooth"]:
            cases[entry["case"]].append(entry)
    if not cases:
        sys.exit("dump.py: the dump has no step of ddp in float64")
    context, failed, seen = mp.get_context("spawn"), False, set()
    for case, entries in cases.items():
        queue = context.Queue()
        with tempfile.TemporaryDirectory() as scratch:
            ranks = [context.Process(target=repeat, args=(rank, directory, f"{scratch}/store", entries, queue))
                     for rank in range(entries[0]["ranks"])]
            for process in ranks:
                process.start()
            error, where = max(queue.get(timeout=300) for _ in ranks)
            for process in ranks:
                process.join()
        seen.add(entries[0]["workload"])
        failed |= not error <= BOUND
        print(f"{case}: {len(entries)} steps, largest difference {error:.2e} ({where}){'' if error <= BOUND else '  ABOVE 1e-12'}", flush=True)
    lacking = set(MODELS) - seen
    if lacking:
        sys.exit(f"dump.py: the dump has no step of {', '.join(sorted(lacking))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
