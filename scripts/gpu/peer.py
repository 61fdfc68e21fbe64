"""Measures Python training steps on one GPU with the models of scripts/peers: eager, or compiled with or without CUDA
graphs.

Prints {"step_us": {workload: [one value per block]}}. Each step copies its batch from pinned memory, as in dpbench.
"""
import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "peers"))
import peer


def measure(workload, args):
    make_model, make_batch, make_loss, optimizer_name = peer.WORKLOADS[workload]
    on_gpu = args.device == "cuda"
    torch.backends.cudnn.allow_tf32 = False  # dpbench does not use TF32 either
    model = make_model().to(args.device)
    optimizer = peer.OPTIMIZERS[optimizer_name](model.parameters(), lr=1e-3, fused=True if on_gpu and args.mode != "foreach" else None)
    loss_of = make_loss()

    def loss(inputs, targets):
        with torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bf16"):
            return loss_of(model(inputs), targets)

    run = {"reduce-overhead": lambda: torch.compile(loss, mode="reduce-overhead"), "compile": lambda: torch.compile(loss)}.get(args.mode, lambda: loss)()
    rows = args.batch or (30 if workload == "random-linear" else 64)
    batches = [tuple(part.pin_memory() if on_gpu else part for part in make_batch(rows)) for _ in range(8)]

    def block(steps):
        start = time.perf_counter()
        for step in range(steps):
            inputs, targets = (part.to(args.device, non_blocking=True) for part in batches[step % len(batches)])
            optimizer.zero_grad(set_to_none=True)
            run(inputs, targets).backward()
            optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps * 1e6

    block(args.warmup if on_gpu else 1)
    return [block(args.steps) for _ in range(args.samples)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", nargs="+", choices=peer.WORKLOADS, default=["random-linear", "mnist-mlp", "convnet"])
    parser.add_argument("--mode", choices=["eager", "foreach", "compile", "reduce-overhead"], default="eager",
                        help="foreach: eager with the default optimizer instead of the fused one")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: autocast")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--samples", type=int, default=5)
    args = parser.parse_args()
    found, failed = {}, 0
    for workload in args.workload:
        try:
            found[workload] = measure(workload, args)
        except Exception as error:  # keeps the results of the other workloads
            print(f"{workload}: {type(error).__name__}: {error}", file=sys.stderr)
            failed = 1
    print(json.dumps({"torch": torch.__version__, "step_us": found}))
    return failed


if __name__ == "__main__":
    sys.exit(main())
