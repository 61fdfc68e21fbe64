"""Defines the parts of scripts/gpu-check: each has a name, a time limit and commands."""
import collections.abc
import dataclasses
import os
import shutil

import sanitizer
from machine import FAULTS, MICRO, PEER_OF_GPT, ROOT, WORKLOADS


@dataclasses.dataclass
class Part:
    name: str
    what: str
    limit_s: int
    commands: list                # list of (label, command line)
    lacks: str | None = None      # reason why the part is skipped here
    broken: str | None = None     # reason why the part fails here without being run
    at_once: bool = False         # runs the commands concurrently; for parts that measure no time
    gpus: int = 1                 # number of GPUs that the part needs; a part that needs 1 sees only the first GPU
    judge: collections.abc.Callable | None = None  # (label, output) -> reason why the command failed, or ""


def steps(machine):
    """Yields the parts whose figures decide the speed targets of targets.py: steps eager and as CUDA graphs, Python's
    steps, ddp's overhead, scaling."""
    one = machine.single()
    yield Part("measure-graphs", "a step of gpu, eager and as a CUDA graph", 40, [
        (workload, machine.run("--strategy", one, *machine.devices(), "--workload", workload, *machine.graph("off,on")))
        for workload in WORKLOADS])
    yield peers(machine)
    yield Part("measure-ddp-1", "ddp's overhead at world 1; short steps also as a CUDA graph", 50, [
        (f"{workload}-{scale}-{batch}",
         machine.run("--strategy", f"{one},ddp", *machine.devices(), "--workload", workload, "--scale", str(scale), "--batch", str(batch),
                     *(machine.graph("off,on", "ddp") if scale == 1 else [])))
        for workload, scale, batch in ((("mnist-mlp", 1, 64),) if machine.rehearse else
                                       (("mnist-mlp", 1, 64), ("mnist-mlp", 16, 4096), ("convnet", 1, 64), ("convnet", 8, 1024)))])
    yield Part("measure-scales", "a step of gpu by model size, bf16: mnist-mlp with batch 4096, convnet with batch 1024", 60, [
        (f"{workload}-{scale}",
         machine.run("--strategy", one, *machine.devices(), "--workload", workload, "--scale", str(scale), "--dtype", "bf16", "--batch",
                     "64" if machine.rehearse else batch, *machine.graph("off,on"), samples=3, max_time_s=1))
        for workload, batch, scales in (("mnist-mlp", "4096", (4, 16, 1)), ("convnet", "1024", (1, 4, 8)))
        for scale in ((1,) if machine.rehearse else scales)])


# Sizes of gpt, with the samples of a step on a GPU.
GPT = (("small", "64"), ("gpt2-124m", "16"))


def transformers(machine):
    """Yields the parts that measure gpt in bf16 with flash attention, beside the same model in Python."""
    sizes = GPT[:1] if machine.rehearse else GPT
    # No audit: the oracle, on the CPU, takes minutes for a step of the large model. The part check-gpu checks gpt.
    flags = [("--model", model, "--batch", "4" if machine.rehearse else batch, "--dtype", "bf16", "--audit", "off") for model, batch in sizes]
    yield Part("measure-gpt", "a step of gpt in bf16, eager and as a CUDA graph", 60, [
        (model[1], machine.run("--strategy", machine.single(), *machine.devices(), "--workload", "gpt", *model, *machine.graph("off,on"), samples=5,
                               max_time_s=3)) for model in flags])

    def peer(mode, model, batch):
        timing = (["--steps", "2", "--samples", "2", "--device", "cpu", "--batch", "4"] if machine.rehearse else
                  ["--warmup", "10", "--samples", "5", "--steps", "100" if model == "small" else "10", "--batch", batch])
        return [machine.python, str(ROOT / "scripts" / "gpu" / "peer.py"), "--workload", PEER_OF_GPT[model], "--dtype", "bf16", "--mode", mode, *timing]

    yield Part("peers-gpt", "the same steps of gpt in Python: eager with a fused optimizer, compiled", 120, [
        (f"{mode}-{model}", peer(mode, model, batch))
        for mode in (("eager",) if machine.rehearse else ("eager", "compile", "reduce-overhead")) for model, batch in sizes], lacks_torch(machine))
    memory = [("gpu", ["--strategy", machine.single()]), ("recompute", ["--strategy", machine.single(), "--recompute", "1"]),
              ("fsdp", ["--strategy", "fsdp", *([] if machine.rehearse else ["--backend", "nccl"])])]
    yield Part("measure-memory", "memory of gpt: as it is, with recomputed blocks, under fsdp in a world of 1", 60, [
        (label, machine.run(*strategy, *machine.devices(), "--workload", "gpt", *flags[-1], "--no-baseline", samples=3, max_time_s=1))
        for label, strategy in memory])


def lacks_torch(machine):
    return None if machine.torch else f"{machine.python} has no torch. Name a Python with torch in DPBENCH_TORCH_PYTHON"


def peers(machine):
    program = str(ROOT / "scripts" / "gpu" / "peer.py")
    few = ["--steps", "5", "--samples", "2", "--device", "cpu"] if machine.rehearse else []
    return Part("peers", "the same steps in Python: eager with fused optimizers, torch.compile with CUDA graphs, eager with default optimizers. "
                "dpbench always fuses; comparing Python's eager and foreach shows the gain from fusing", 100, [
                    (mode, [machine.python, program, "--mode", mode, *few])
                    for mode in (("eager", "foreach") if machine.rehearse else ("eager", "reduce-overhead", "foreach"))], lacks_torch(machine))


# Cases of sharded strategies on one GPU: backend, ranks, workloads, dtypes.
SHARDED = (("shm", 2, ("convnet", "gpt"), "f64,f32"), ("gloo", 2, ("gpt",), "f32"), ("shm", 4, ("gpt",), "f32"))


def conformance_of_shared_gpu(machine):
    for backend in ("gloo", "shm"):
        yield Part(f"check-ddp-{backend}", f"conformance of ddp over {backend}, 2 and 4 ranks on one device", 120, [
            (str(world), machine.check("--strategy", "ddp", *machine.devices(world), "--backend", backend, workloads=WORKLOADS))
            for world in ((2,) if machine.rehearse else (2, 4))])
    commands = [
        (f"{backend}-{world}", machine.check("--strategy", "zero2,fsdp", *machine.devices(world), "--backend", backend, workloads=workloads, dtypes=dtypes))
        for backend, world, workloads, dtypes in SHARDED if world == 2 or not machine.rehearse]
    commands.append(("hsdp", machine.check("--strategy", "fsdp", *machine.devices(4), "--mesh", "dp=2,shard=2",
                                           "--param", "fsdp.prefetch=0,2", "--backend", "shm", workloads=("gpt",),
                                           dtypes="f32")))
    yield Part("check-sharded", "conformance of zero2, fsdp and HSDP over shm and gloo, 2 and 4 ranks on one device", 160,
               commands)


def conformance_of_layouts(machine):
    """Yields the parts that check pipeline, tensor, context and expert parallelism and their combinations. Their
    commands run one after the other, because a GPU switches between the contexts of all processes at every collective.
    The memory-efficient attention kernel needs heads of a multiple of 4 features. The model tiny lacks them, so cp=2
    uses hidden=24."""
    for world, limit_s, meshes in ((2, 120, ("pp=2", "tp=2", "cp=2", "ep=2")), (4, 140, ("dp=2,tp=2", "pp=2,cp=2", "shard=2,tp=2", "dp=2,pp=2"))):
        yield Part(f"check-layouts-{world}", f"conformance of layouts of {world} ranks over shm on one device", limit_s, [
            (mesh, machine.check("--strategy", "layout" if "," in mesh else mesh.split("=", maxsplit=1)[0], *machine.devices(world), "--mesh", mesh,
                                 *(["--model", "tiny,hidden=24"] if mesh == "cp=2" else []),
                                 "--backend", "shm", workloads=("probe-experts", "gpt-exact-experts") if "ep" in mesh else ("gpt",), dtypes="f64,f32"))
            for mesh in (meshes[:1] if machine.rehearse else meshes)])


def faults(machine):
    lacks = None if (machine.programs.parent / "lib" / FAULTS).exists() else f"no {FAULTS} beside {machine.programs}. Build it and pack again"
    yield Part("faults", "a rank of ddp runs out of the GPU's memory, asserts in a kernel, is killed, throws: dpbench names it and ends; then a healthy run", 60, [
        ("ddp", machine.helper("faults.py", "--plugin", str(machine.programs.parent / "lib" / FAULTS), "--out", str(machine.out / "runs"),
                               *machine.devices(2), "--backend", "shm"))], lacks)
    yield Part("overlap", "samples travel to the GPU while the step before computes, seen in a trace", 20, [
        ("mnist-mlp", machine.helper("overlap.py", "--strategy", "gpu", *machine.devices(), "--workload", "mnist-mlp", "--scale", "8", "--batch", "4096"))],
               "a rehearsal has no GPU" if machine.rehearse else None)


def conformance(machine):
    gpu = [("gpu", machine.check("--strategy", machine.single(), *machine.devices()))]
    if not machine.rehearse:
        gpu.append(("graph", machine.check("--strategy", "gpu", *machine.devices(), *machine.graph("on"))))
    ddp = [("ddp", machine.check("--strategy", "ddp", *machine.devices(), *([] if machine.rehearse else ["--backend", "nccl"])))]
    if not machine.rehearse:
        ddp.append(("graph", machine.check("--strategy", "ddp", *machine.devices(), "--backend", "nccl", *machine.graph("on", "ddp"))))
    yield Part("check-gpu", "conformance of gpu, eager and as a CUDA graph", 90, gpu, at_once=True)
    yield Part("check-dp", "conformance of dp on one device", 60, [("dp", machine.check("--strategy", "dp", *machine.devices()))])
    two = [("dp", machine.check("--strategy", "dp", *machine.devices(2)))]
    if not machine.rehearse:
        two.append(("graph", machine.check("--strategy", "dp", *machine.devices(2), *machine.graph("on", "dp"))))
    yield Part("check-dp-2", "conformance of dp, 2 replicas on one device, eager and as CUDA graphs", 120, two, at_once=True)
    yield Part("check-ddp-nccl", "conformance of ddp over NCCL, world 1, eager and as a CUDA graph", 95, ddp,
               at_once=True)


def lacks_micro(machine):
    return None if os.access(machine.programs / MICRO, os.X_OK) else (
        f"no {MICRO} in {machine.programs}. Install libbenchmark-dev on the build machine, build and pack again")


# Meshes of the layouts that are checked and measured with a GPU for each rank.
MESHES = {2: ("tp=2", "pp=2", "cp=2"), 4: ("dp=2,tp=2", "pp=2,cp=2", "dp=2,shard=2"), 8: ("dp=2,pp=2,tp=2", "dp=2,shard=2,cp=2")}


def several_gpus(machine):
    """Yields the parts that need several GPUs: one for each rank or replica. Ranks communicate over NCCL."""
    for count in MESHES:
        yield from parts_of_gpus(machine, count)


def parts_of_gpus(machine, count):
    lacks, devices = machine.lacks_gpus(count), machine.devices(count, shared=False)
    nccl = [] if machine.rehearse else ["--backend", "nccl"]
    dp = ["--strategy", "dp", *devices, "--param", "dp.link=auto,plain"]
    ddp = ["--strategy", "ddp", *devices, *nccl]

    def layout(mesh):
        return ["--strategy", "layout", *devices, "--mesh", mesh, *nccl]

    def part(name, what, limit_s, commands, **more):
        return Part(f"{name}-gpus-{count}", f"{what}, {count} GPUs", limit_s, commands, lacks, gpus=count, **more)

    def checks(flags, strategy):
        return [(strategy, machine.check(*flags))] + ([] if machine.rehearse else [("graph", machine.check(*flags, *machine.graph("on", strategy)))])

    yield part("check-dp", "conformance of dp, over NCCL and by plain copies, eager and as CUDA graphs", 120, checks(dp, "dp"), at_once=True)
    yield part("check-ddp", "conformance of ddp and raw collectives over NCCL, eager and as CUDA graphs", 120, checks(ddp, "ddp"), at_once=True)
    yield part("check-sharded", "conformance of zero1, zero2 and fsdp over NCCL", 120, [
        ("all", machine.check("--strategy", "zero1,zero2,fsdp", *devices, *nccl, workloads=("convnet", "gpt")))])
    yield part("check-layouts", "conformance of layouts over NCCL", 120, [
        (mesh, machine.check(*layout(mesh), workloads=("gpt",), dtypes="f64,f32")) for mesh in MESHES[count]], at_once=True)
    micro = part("collectives", "allreduce, reduce_scatter, allgather and broadcast over NCCL, 4 B to 64 MiB", 30, [
        ("all", machine.collectives("gloo" if machine.rehearse else "nccl", str(count), "allreduce|reduce_scatter|allgather|broadcast"))])
    micro.lacks = lacks or lacks_micro(machine)
    yield micro
    size, batch = ("small", "2") if machine.rehearse else GPT[1]
    # No audit, as in transformers(): the oracle takes minutes for a step of the large model. check-layouts checks gpt.
    gpt = ["--workload", "gpt", "--model", size, "--batch", batch, "--dtype", "bf16", "--audit", "off"]
    yield part("measure", "a step of dp, over NCCL and by plain copies, of ddp, and of gpt under ddp, fsdp and layouts", 120, [
        *((strategy, machine.run(*flags, "--workload", ",".join(WORKLOADS), samples=3, max_time_s=1)) for strategy, flags in (("dp", dp), ("ddp", ddp))),
        ("gpt", machine.run("--strategy", "ddp,fsdp", *devices, *nccl, *gpt, samples=3, max_time_s=1)),
        *((mesh, machine.run(*layout(mesh), *gpt, samples=3, max_time_s=1)) for mesh in MESHES[count])])


def sweeps(machine):
    lacks = lacks_micro(machine)
    yield Part("measure-allreduce", "allreduce of 4 B to 64 MiB: NCCL alone, gloo and shm with 2 and 4 ranks on one device", 50, [
        (label, machine.collectives(backends, worlds))
        for label, backends, worlds in ((("shared", "gloo,shm", "2"),) if machine.rehearse else
                                        (("nccl", "nccl", "1"), ("shared", "gloo,shm", "2,4")))], lacks)
    yield Part("measure-batches", "a step of gpu by batch size", 80, [
        (workload, machine.run("--strategy", machine.single(), *machine.devices(), "--workload", workload, "--batch",
                               "64" if machine.rehearse else "64,256,1024,4096,16384", *machine.graph("off,on"), samples=3, max_time_s=1))
        for workload in WORKLOADS[1:]])


def replicas(machine):
    yield Part("measure-dp", "a step of dp, eager and as CUDA graphs, with 1 replica and with 2 on one device", 40, [
        (str(world), machine.run("--strategy", "dp", *machine.devices(world), "--workload", ",".join(WORKLOADS), "--no-baseline",
                                 *machine.graph("off,on", "dp"), samples=3, max_time_s=1))
        for world in (1, 2)])


def sanitizers(machine):
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    lacks = None if found and not machine.rehearse else "no compute-sanitizer here" if not found else "a rehearsal has no GPU"
    short = machine.dpbench("run", "--strategy", "gpu", *machine.devices(), "--workload", "random-linear", "--no-baseline", "--check", "off",
                            "--launches", "1", "--samples", "1", "--steps", "8", "--warmup", "8", "--timeout", "60", "-q", "--out",
                            str(machine.out / "runs"))
    yield Part("sanitizer", "compute-sanitizer's memcheck and racecheck on a short run", 60, [
        (f"{tool}-{graph}", [found or "compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", *short,
                             *machine.graph(graph)])
        for tool in sanitizer.CLEAN for graph in ("off", "on")], lacks, at_once=True, judge=sanitizer.complaint)


def all_parts(machine):
    """Returns all parts of gpu-check, most important first, because gpu-check's time limit may cut off the last ones:
    first conformance, then the figures that decide the targets of targets.py."""
    state = [("doctor", machine.dpbench("doctor")), ("env", machine.dpbench("env"))]
    if not machine.rehearse and shutil.which("nvidia-smi"):
        state.append(("nvidia-smi", ["nvidia-smi"]))
    parts = [Part("doctor", "the machine's devices and environment", 15, state, gpus=len(machine.visible)), *conformance(machine),
             *conformance_of_layouts(machine), *conformance_of_shared_gpu(machine), *steps(machine), *transformers(machine), *faults(machine),
             *several_gpus(machine), *sweeps(machine), *sanitizers(machine), *replicas(machine)]
    for part in parts:
        part.lacks = machine.no_gpu or part.lacks
    return parts
