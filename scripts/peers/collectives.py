"""collectives.py [--world N] [--sizes BYTES,..]: measures allreduce, reduce_scatter, allgather and broadcast through PyTorch's Python
interface over gloo, one thread per rank, verified before timing. Prints the format of dpbench-micro, for comparison. Times are means
over iterations and ranks; sizes are of the whole tensor."""
import argparse
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

SHARES = {"allreduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "allgather": lambda n: (n - 1) / n,
          "broadcast": lambda n: 1.0}


def given(count, rank):
    return ((torch.arange(count) % 61 + 1) * (rank + 1)).float()


def prepared(name, count, rank, world):
    """Returns a collective's call, its output tensor and the expected values."""
    part = count // world
    if name == "allreduce":
        tensor = given(count, rank)
        return lambda: dist.all_reduce(tensor), tensor, given(count, 0) * (world * (world + 1) // 2)
    if name == "broadcast":
        tensor = given(count, rank)
        return lambda: dist.broadcast(tensor, 0), tensor, given(count, 0)
    if name == "allgather":
        shard, tensor = given(part, rank), torch.empty(count)
        return lambda: dist.all_gather_into_tensor(tensor, shard), tensor, torch.cat([given(part, r) for r in range(world)])
    whole, tensor = given(count, rank), torch.empty(part)
    return lambda: dist.reduce_scatter_tensor(tensor, whole), tensor, (given(count, 0) * (world * (world + 1) // 2)).chunk(world)[rank]


def measure(name, size, rank, world):
    count = max(size // 4 // world, 1) * world
    call, output, expected = prepared(name, count, rank, world)
    call()
    wrong = int(output.ne(expected).sum())
    for _ in range(3):
        call()
    dist.barrier()
    iterations = min(max((64 << 20) // size, 5), 200)
    begin = time.perf_counter()
    for _ in range(iterations):
        call()
    found = torch.tensor([(time.perf_counter() - begin) / iterations / world, wrong], dtype=torch.float64)
    dist.all_reduce(found)
    seconds = float(found[0])
    if rank == 0:
        bandwidth = count * 4 / seconds * 1e-9
        print(f"{count * 4:12}  {count:12}   float  {'sum' if 'reduce' in name else 'none':>6}  {0 if name == 'broadcast' else -1:>6}  "
              f"{seconds * 1e6:8.2f}  {bandwidth:8.4f}  {bandwidth * SHARES[name](world):8.4f}  {int(found[1]):6}", flush=True)


def run(rank, world, file, sizes):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world)
    for name in SHARES:
        if rank == 0:
            print(f"\n# {name}/torch.distributed {torch.__version__}, gloo/world:{world}\n#       size         count    type   redop"
                  "    root      time     algbw     busbw  #wrong")
        for size in sizes:
            measure(name, size, rank, world)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--sizes", default=",".join(str(4 * 4**k) for k in range(14)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (options.world, f"{folder}/store", [int(s) for s in options.sizes.split(",")]), nprocs=options.world)
