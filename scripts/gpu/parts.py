"""The parts of scripts/gpu-check: a name, a limit in seconds, and the commands that make it up. Data, no doing."""
import dataclasses
import os
import shutil

from machine import ROOT, WORKLOADS, torch_libraries


@dataclasses.dataclass
class Part:
    name: str
    what: str
    limit_s: int
    commands: list  # (label, command line)
    lacks: str | None = None  # why it cannot run here


def every_dtype(machine, label, *flags, small=False):
    return [(f"{label}-{dtype}", machine.check(*flags, "--dtype", dtype, small=small)) for dtype in ("f32", "f64", "bf16")]


def conformance(machine):
    gpu = every_dtype(machine, "gpu", "--strategy", machine.single(), *machine.devices())
    if not machine.rehearse:
        gpu += every_dtype(machine, "graph", "--strategy", "gpu", *machine.devices(), *machine.graph("on"))
    nccl = [] if machine.rehearse else ["--backend", "nccl"]
    yield Part("check-gpu", "conformance of gpu, eager and as a CUDA graph", 80, gpu)
    yield Part("check-dp", "conformance of dp on one device", 40, every_dtype(machine, "dp", "--strategy", "dp", *machine.devices()))
    yield Part("check-dp-2", "conformance of dp, 2 replicas on one device", 40,
               every_dtype(machine, "dp", "--strategy", "dp", *machine.devices(2)))
    yield Part("check-ddp-nccl", "conformance of ddp over NCCL, world 1", 40,
               every_dtype(machine, "ddp", "--strategy", "ddp", *machine.devices(), *nccl))
    for backend in ("gloo", "shm"):
        ranks = [(f"{world}-{dtype}", machine.check("--strategy", "ddp", *machine.devices(world), "--backend", backend, "--dtype", dtype,
                                                    small=True))
                 for world in (2, 4, 8) for dtype in ("f32", "f64", "bf16")]
        yield Part(f"check-ddp-{backend}", f"conformance of ddp over {backend}, 2, 4 and 8 ranks on one device", 70, ranks[:1] if machine.rehearse else ranks)


def measurements(machine):
    one = machine.single()
    batches = "64" if machine.rehearse else "64,256,1024,4096"
    scales = (1,) if machine.rehearse else (1, 4, 16)
    yield Part("measure-graphs", "a step of gpu, eager and as a CUDA graph", 45, [
        (workload, machine.run("--strategy", one, *machine.devices(), "--workload", workload, *machine.graph("off,on")))
        for workload in WORKLOADS])
    yield Part("measure-batches", "a step of gpu by rows", 60, [
        (workload, machine.run("--strategy", one, *machine.devices(), "--workload", workload, "--batch", batches, *machine.graph("off,on")))
        for workload in WORKLOADS[1:]])
    yield Part("measure-scales", "a step of gpu by the model's size, bf16 at 4096 rows", 45, [
        (f"mnist-mlp-{scale}", machine.run("--strategy", one, *machine.devices(), "--workload", "mnist-mlp", "--scale", str(scale), "--dtype",
                                           "bf16", "--batch", "64" if machine.rehearse else "4096", *machine.graph("off,on")))
        for scale in scales])
    yield Part("measure-ddp-1", "what ddp costs at world 1", 50, [
        (f"{workload}-{scale}-{batch}",
         machine.run("--strategy", f"{one},ddp", *machine.devices(), "--workload", workload, "--scale", str(scale), "--batch", str(batch)))
        for workload, scale, batch in ((("mnist-mlp", 1, 64),) if machine.rehearse else
                                       (("mnist-mlp", 1, 64), ("mnist-mlp", 16, 4096), ("convnet", 1, 64), ("convnet", 8, 1024)))])
    yield Part("measure-allreduce", "ddp's reductions by size, 2 ranks on one device, gloo and shm", 40, [
        (f"{backend}-{scale}", machine.run("--strategy", "ddp", *machine.devices(2), "--no-baseline", "--backend", backend, "--workload",
                                           "mnist-mlp", "--scale", str(scale)))
        for backend in ("gloo", "shm") for scale in scales])


def peers(machine):
    program = str(ROOT / "scripts" / "gpu" / "peer.py")
    few = ["--steps", "5", "--samples", "2", "--device", "cpu"] if machine.rehearse else []
    lacks = None if torch_libraries(machine.python) else f"{machine.python} imports no torch; name one that does with DPBENCH_TORCH_PYTHON"
    yield Part("peers", "the same steps in Python: eager with fused optimizers, torch.compile with CUDA graphs, eager with the default ones", 100, [
        (mode, [machine.python, program, "--mode", mode, *few])
        for mode in (("eager", "foreach") if machine.rehearse else ("eager", "reduce-overhead", "foreach"))], lacks)


def sanitizers(machine):
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    lacks = None if found and not machine.rehearse else "no compute-sanitizer here" if not found else "a rehearsal has no GPU"
    short = machine.dpbench("run", "--strategy", "gpu", *machine.devices(), "--workload", "random-linear", "--no-baseline", "--check", "off",
                            "--launches", "1", "--samples", "1", "--steps", "8", "--warmup", "8", "--timeout", "60", "-q", "--out",
                            str(machine.out / "runs"))
    yield Part("sanitizer", "compute-sanitizer's memcheck and racecheck on a short run", 60, [
        (f"{tool}-{graph}", [found or "compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", *short,
                             *machine.graph(graph)])
        for tool in ("memcheck", "racecheck") for graph in ("off", "on")], lacks)


def all_parts(machine):
    state = [("doctor", machine.dpbench("doctor")), ("env", machine.dpbench("env"))]
    if not machine.rehearse and shutil.which("nvidia-smi"):
        state.append(("nvidia-smi", ["nvidia-smi"]))
    parts = [Part("doctor", "what this machine has", 15, state), *measurements(machine), *peers(machine), *conformance(machine),
             *sanitizers(machine)]
    if machine.no_gpu:
        for part in parts:
            part.lacks = machine.no_gpu
    elif not os.access(machine.programs / "dpbench", os.X_OK):
        for part in parts:
            part.lacks = f"no dpbench in {machine.programs}: build it (scripts/build cuda build/release programs) or bring build/gpu"
    return parts
