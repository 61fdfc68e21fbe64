"""Decides from the figures of scripts/gpu-check and the status of its parts which of its targets are met: speedups over
Python, the overhead of ddp, the share of the peak, passed conformance parts."""
import statistics

from figures import cases, fastest, peak_shares
from machine import PEER_OF_GPT

MAX_OVERHEAD, LONG_STEP_US, MIN_SHARE = 1.03, 2000, 0.70
# (workload, mode of the Python peer, minimum speedup over Python)
AGAINST_PYTHON = (("random-linear", "eager", 5), ("random-linear", "reduce-overhead", 2), ("mnist-mlp", "eager", 5),
                  ("mnist-mlp", "reduce-overhead", 2), ("convnet", "eager", 3))
# (size of gpt, mode of the Python peer, minimum speedup over Python)
GPT_AGAINST_PYTHON = (("small", "eager", 5), ("gpt2-124m", "compile", 1))
CONFORMING = ("check-ddp-gloo", "check-ddp-shm")


def verdict(name, value, target, met, text):
    return {"name": name, "value": value, "target": target, "measured": text,
            "verdict": "not measured" if value is None else "met" if met else "missed"}


def peer_steps(report, workload):
    return ((report or {}).get("step_us") or {}).get(workload)


def speedup_over_python(what, mode, least, rows, graph, peer):
    """Judges the speedup of dpbench over the Python peer. peer: the peer's step times. dpbench's step time is that of
    the fastest case of `rows` whose parameter `graph` has the value `graph`."""
    ours = fastest(case for case in rows if case["params"].get("graph") == graph)
    theirs = statistics.median(peer) if peer else None
    ratio = theirs / ours if ours and theirs else None
    lacking = " and ".join(word for word, one in (("ours", ours), ("Python's", theirs)) if not one)
    return verdict(f"{what} against Python, {mode}", ratio, f"at least {least} times", ratio and ratio >= least,
                   f"{ratio:.2f} times: {ours:.1f} and {theirs:.1f} us" if ratio else f"no step of {lacking}")


def against_python(said, graph):
    for workload, mode, least in AGAINST_PYTHON:
        rows = [case for case in cases(said, "measure-graphs") if case["workload"] == workload]
        yield speedup_over_python(workload, mode, least, rows, graph, peer_steps(said.get("peers", {}).get(mode), workload))
    for model, mode, least in GPT_AGAINST_PYTHON:
        rows = [case for case in cases(said, "measure-gpt") if case.get("model") == model]
        peer = peer_steps(said.get("peers-gpt", {}).get(f"{mode}-{model}"), PEER_OF_GPT[model])
        yield speedup_over_python(f"gpt {model}", mode, least, rows, graph, peer)


def ddp_overhead(said):
    for label, report in said.get("measure-ddp-1", {}).items():
        rows = (report or {}).get("cases", [])
        alone = fastest(case for case in rows if case["strategy"] in ("gpu", "cpu"))
        ddp = fastest(case for case in rows if case["strategy"] == "ddp" and case["params"].get("graph") != "on")
        ratio = ddp / alone if ddp and alone else None
        name = f"ddp at world 1 over gpu, {label}"
        if ratio and alone < LONG_STEP_US:  # for a step this short, a limit in percent would be within the noise
            yield {"name": name, "value": ratio, "target": "shown", "measured": f"{ddp - alone:+.1f} us on {alone:.1f} us", "verdict": "shown"}
        else:
            yield verdict(name, ratio, "at most 3 % from 2 ms on", ratio and ratio <= MAX_OVERHEAD,
                          f"{100 * (ratio - 1):+.1f} % on {alone / 1e3:.2f} ms" if ratio else "no step")


def speedup_over_eager(name, rows):
    graph = fastest(case for case in rows if case["params"].get("graph") == "on")
    eager = fastest(case for case in rows if case["params"].get("graph") != "on")
    if graph and eager:
        yield {"name": name, "value": eager / graph, "target": "shown",
               "measured": f"{eager / graph:.2f} times: {graph:.1f} and {eager:.1f} us", "verdict": "shown"}


def recorded(said):
    """Yields the speedup from recording ddp's steps and dp's passes as CUDA graphs."""
    for label, report in said.get("measure-ddp-1", {}).items():
        rows = [case for case in (report or {}).get("cases", []) if case["strategy"] == "ddp"]
        yield from speedup_over_eager(f"ddp at world 1 as a CUDA graph against eager, {label}", rows)
    for world, report in said.get("measure-dp", {}).items():
        rows = (report or {}).get("cases", [])
        for workload in dict.fromkeys(case["workload"] for case in rows):
            yield from speedup_over_eager(f"dp at world {world} as CUDA graphs against eager, {workload}",
                                    [case for case in rows if case["workload"] == workload])


def gemm_share(said):
    shares = {label: share for label, share in peak_shares(said, "measure-scales", "scale").items() if label[0] == "mnist-mlp"}
    which = max(shares, key=shares.get, default=None)
    best = shares.get(which)
    yield verdict("share of the measured matrix-product rate, a scaled mnist-mlp in bf16", best, "at least 70 %", best and best >= MIN_SHARE,
                  f"{100 * best:.0f} % at --scale {which[1]}" if best else "no step with its operations")


def conformance(records):
    for record in records:
        if record["name"] in CONFORMING:
            ran = record["status"] in ("passed", "failed") and record["commands"]
            yield verdict(f"{record['what']}: gradients conform", record["status"] == "passed" if ran else None, "every check passes",
                          record["status"] == "passed", record["status"])


def judge(said, records, machine):
    """Returns each target with its ratio and verdict. In a rehearsal (on virtual CPU devices) the verdict is
    "rehearsed", because the figures are not a GPU's."""
    found = [*against_python(said, None if machine.rehearse else "on"), *ddp_overhead(said), *recorded(said), *gemm_share(said), *conformance(records)]
    if machine.rehearse:
        for one in found:
            one["verdict"] = "not measured" if one["value"] is None else "rehearsed"
    return found

