"""Small made-up reports for the tests of the charts and the HTML page, including failures and hostile names."""
import copy
import json
import math
import pathlib
import random

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/run-1.0.json"
PHASES = {"data": 0.03, "forward": 0.3, "backward": 0.45, "communication": 0.1, "optimizer": 0.07, "waiting": 0.05}


def report(cases, run="20261121T063057Z-a1b2c3d-2xEPYC-5f3a", status="complete", commit="a1b2c3d"):
    with open(GOLDEN, encoding="utf-8") as file:
        made = json.load(file)
    made["env"]["gpus"] = []
    made["tool"]["commit"] = commit
    return made | {"id": run, "status": status, "cases": cases}


def case(strategy="ddp", workload="mnist-mlp", world=1, step_ns=1e6, launches=3, samples=5, status="ok", noise=0.02, checks=(),
         params=None, **more):
    """Returns a case with blocks of 10 steps of about step_ns each, and with figures that match approximately."""
    draw = random.Random(f"{strategy} {workload} {world} {params}")
    ranks = world if strategy == "ddp" else 1
    made = {"strategy": strategy, "workload": workload, "device": "cpu", "world": world, "processes": ranks,
            "backend": "shm" if strategy == "ddp" else "none", "scaling": "weak", "batch": 64, "dtype": "f32", "params": params or {},
            "scale": 1, "accumulate": 1, "clip_norm": None, "seed": 1, "data_dir": "", "threads": 1, "oversubscribe": False,
            "baseline": strategy == "cpu", "status": status, "reason": "", "checks": list(checks), "warnings": [], "notices": [],
            "stats": {"step_time_ns": None}, "phases": {"mean_step_ns": {}}, "launches": [],
            "derived": dict.fromkeys(("samples_per_s", "speedup", "efficiency", "comm_fraction", "noise", "peak_memory_bytes"))}
    made |= more
    words = [strategy, workload, f"cpu:{world}", made["backend"], made["scaling"], f"b{made['batch']}", "f32"]
    made["id"] = "/".join(words + [f"{key}={value}" for key, value in made["params"].items()])
    if status != "ok":
        return made
    for index in range(launches):
        level = step_ns * math.exp(draw.gauss(0, noise))
        times = [max(1, round(10 * level * math.exp(draw.gauss(0, noise)))) for _ in range(samples)]
        made["launches"].append({"index": index, "ranks": [
            {"rank": rank, "threads": 1, "steps_per_sample": 10, "rows_per_step": 64 * world, "samples_ns": times, "step_p50_ns": 0,
             "step_p90_ns": 0, "step_p99_ns": 0, "phases_ns": {}, "peak_rss_bytes": draw.randint(180, 220) << 20, "peak_device_bytes": 0,
             "first_loss": 2.3, "last_loss": 1.0, "parameters_hash": "same", "warnings": []} for rank in range(ranks)]})
        for rank in made["launches"][-1]["ranks"]:
            rank["profile"] = {"steps": 10, "step_ns": step_ns, "collectives": [], "memory": {
                "parameters": 3 << 20, "gradients": 3 << 20, "state": 6 << 20, "activations": 5 << 20,
                "buffers": (ranks - 1) << 20, "temporary": 1 << 19}}
    half = 2 * noise
    made["stats"]["step_time_ns"] = {"median": step_ns, "ci95_low": step_ns * (1 - half), "ci95_high": step_ns * (1 + half),
                                     "interval": "launches" if launches > 2 else "samples", "p90": step_ns, "p99": step_ns,
                                     "mad": noise * step_ns, "n": launches * samples, "launches": launches}
    made["phases"]["mean_step_ns"] = {name: share * step_ns for name, share in PHASES.items()}
    rows = 64 * world * 1e9 / step_ns
    made["derived"] = {"samples_per_s": rows, "speedup": rows / 64e3, "efficiency": rows / 64e3 / world, "comm_fraction": 0.1,
                       "noise": 1.48 * noise, "peak_memory_bytes": 200 << 20}
    return made


def check(name="gradient-vs-baseline", status="passed", **more):
    return {"name": name, "status": status, "compared": "gradients with the float64 oracle", "error": 1e-14, "bound": 1e-12,
            "detail": "", "likely": ""} | more


FAILED = check(status="failed", error=1.0, detail="n.1.weight[3], rank 1, step 2: expected 1, found 2", likely="sum instead of mean")


def usual():
    """Returns a run of three strategies with 1, 2 and 4 replicas, and the baseline on one device."""
    return report([case("cpu")] + [case(strategy, world=world, step_ns=1e6 * slower * (1 + 0.2 * world))
                                   for strategy, slower in (("dp", 0.9), ("dp-upstream", 1.6), ("ddp", 1.0)) for world in (1, 2, 4)])


def proven(made):
    """Adds a passed check to each case and its own memory to each rank, so that charts may rank the cases. Returns the
    run."""
    for each in made["cases"]:
        each["checks"] = [check()]
        for launch in each["launches"]:
            for rank in launch["ranks"]:
                rank["own_rss_bytes"] = rank["peak_rss_bytes"]
    return made


def troubled():
    """Returns a run with every case status but unproven, outliers, notices, a failed check, load by other programs
    during a case, and a case with other mathematics than the baseline (local-sgd)."""
    odd = case("ddp", world=2, means="batch mean")
    for launch in odd["launches"]:
        launch["others"] = {"programs": 0.6, "host": 0.0}
    odd["launches"][1]["ranks"][0]["samples_ns"][1] *= 4
    odd["notices"] = ["1 of 15 samples are outliers, up to 300 % above the median"]
    made = report([case("cpu", means="batch mean"), odd, case("dp", world=2, status="wrong", checks=[FAILED, check("output-shape")]),
                   case("ddp", world=4, status="failed", reason="rank 2 was killed by signal 9 (SIGKILL) at step 17 " + "of a long tale " * 20),
                   case("gpu", device="cuda", status="skipped", reason="no GPU here"),
                   case("dp", world=1, status="disturbed", reason="14 of 15 blocks lacked their cores"),
                   case("local-sgd", world=2, means="local steps"),
                   case("ddp", world=3, status="interrupted", reason="Ctrl-C")], status="interrupted")
    return made | {"disturbance": "1 of 8 cases disturbed: their replicas did not have their cores; "
                                  "other programs took 0.6 of 2 cores in 1 of 3 cases"}


def hostile():
    """Returns a run with names that contain markup, code, formulas or control characters."""
    bad = "<script>document.title='run'</script>"
    evil = case(bad, world=2, params={"a$b$": "\"><img src=x onerror=alert(1)>"})
    evil["warnings"] = [bad, "</style></script><b>bold</b>"]
    wrong = case("dp", workload="</table><h1>" + bad, world=2, status="wrong", checks=[FAILED | {"name": bad, "detail": bad, "likely": "<i>"}])
    made = report([case("cpu"), case("cpu", workload="</table><h1>" + bad), evil, case(bad), wrong,
                   case("@@MAIN@@", world=2), case("longname" * 20, world=2), case("\u202e\x1b[31mред中", world=2)])
    made["tool"]["argv"] = ["dpbench", bad]
    made["env"]["cpu"]["model"] = "<b>" + bad
    made["env"]["variables"] = {"OMP_NUM_THREADS": "</script>"}
    return made


def many(number=500):
    """Returns a run of ddp with many values of one parameter, `number` cases in total."""
    cases = [case("cpu"), case("cpu", workload="convnet")]
    for index in range(number - 2):
        workload = ("mnist-mlp", "convnet")[index % 2]
        cases.append(case("ddp", workload=workload, world=(1, 2, 4, 8)[index // 2 % 4], params={"bucket_mb": str(index // 8)},
                          step_ns=1e6 * (1 + index / number)))
    return report(cases)


def settings(number=100):
    """Returns a run of `number` batch sizes with five cases each. Cases of different batch sizes share no chart."""
    return report([case(strategy, world=world, batch=64 + index) for index in range(number)
                   for strategy, world in (("cpu", 1), ("dp", 1), ("dp", 2), ("ddp", 1), ("ddp", 2))])


def conformance(failing=True):
    """Returns a report like the output of `dpbench check -o json`."""
    names = [f"check-{index}" for index in range(30)]
    cases = []
    for strategy in ("dp", "ddp"):
        for workload in ("mnist-mlp", "random-linear", "probe-exact", "probe-tied"):
            for world in (1, 3):
                made = case(strategy, workload=workload, world=world)
                made |= {"launches": [], "stats": {"step_time_ns": None}, "phases": {"mean_step_ns": {}}}
                made["checks"] = [check(name) for name in names] + [check("clip", "skipped", error=None, bound=None, detail="no norm")]
                if failing and strategy == "ddp" and workload == "probe-tied":
                    made["checks"][3] = FAILED | {"name": "check-3"}
                    made["status"] = "wrong"
                cases.append(made)
    made = report(cases)
    made["id"] = ""
    return made


def trained_for(epochs, resumed_at, accuracy, seconds=12.0):
    """Returns the key `training` of a case, with 250 steps per epoch; only the last epochs were evaluated."""
    curve = [2.3 * math.exp(-step / 300) + 0.2 for step in range(250 * epochs)]
    return {"epochs": epochs, "steps_per_epoch": 250, "steps": 250 * epochs, "resumed_at": resumed_at, "seconds": seconds, "samples_per_s": 1e4,
            "data_fraction": 0.02, "epoch_losses": [sum(curve[250 * i:250 * i + 250]) / 250 for i in range(epochs)], "loss_curve": curve,
            "accuracy": accuracy, "target_accuracy": 0.88, "time_to_accuracy_s": seconds if resumed_at else None}


def tuned():
    """Returns a run of `dpbench tune --over batch` in which a batch of 256 wins."""
    made = report([case(batch=batch, world=2, step_ns=1e6 * (1 + batch / 64), launches=3)
                   for batch in (64, 16, 32, 128, 256)])
    for one, speedup in zip(made["cases"], (1, 0.6, 0.8, 1.3, 1.6)):
        one["derived"] |= {"speedup": speedup, "speedup_low": 0.97 * speedup, "speedup_high": 1.03 * speedup}
    made["config"] |= {"reference_batch": 64, "judged_from_launch": 2,
                       "tuned": [{"case": made["cases"][-1]["id"], "speedup": 1.58, "low": 1.5, "high": 1.66,
                                  "launches": 5, "pairs": 50, "verdict": "faster"}]}
    return made


def trained():
    """Returns a run with two trained cases and a projection of ddp to larger worlds."""
    made = usual()
    for one in made["cases"]:
        if one["world"] == 2 and one["strategy"] in ("dp", "ddp"):
            one["training"] = trained_for(4, resumed_at=500 if one["strategy"] == "ddp" else 0, accuracy=[0.7, 0.85, 0.9])
    for world in (8, 64):
        made["cases"].append(case("ddp", world=world, step_ns=1.2e6 + world * 1e4) |
                             {"projected": True, "fitted": [1, 2, 4], "launches": []})
    return made


def duel():
    """Returns a duel of three cases, as dpbench wrote it: inconclusive, each case is unclear."""
    return json.loads((GOLDEN.parent / "duel-1.1.json").read_text(encoding="utf-8"))


def judgement(case_id, change, verdict, metric="median", unit="percent", bounded=True, failed=False):
    """Returns a judged case of a comparison. Its interval is the change ± 2 in `unit`; if `bounded` is false, it has
    none."""
    changes = {f"{key}_{of}": None for of in ("percent", "points") for key in ("change", "ci95_low", "ci95_high")}
    changes |= {f"change_{unit}": change, f"ci95_low_{unit}": change - 2 if bounded else None,
                f"ci95_high_{unit}": change + 2 if bounded else None}
    return {"case": case_id, "metric": metric, "rule": f"{metric}:5%", "unit": "ms", "base": 0.5, "limit": None,
            "new": 0.5 * (1 + change / 100), **changes, "base_launches": 5, "new_launches": 5, "verdict": verdict,
            "failed": failed}


def comparison():
    """Returns a comparison like the output of `dpbench compare -o json`, with a case of every kind."""
    ids = [f"{name}/toy/cpu:2/shm/weak/b64/f32" for name in ("ddp", "dp", "fsdp", "zero1", "zero2")]
    judged = [judgement(ids[0], 9.0, "SLOWER", failed=True), judgement(ids[1], 0.1, "same"),
              judgement(ids[0], -4.0, "unclear", metric="efficiency", unit="points", bounded=False)]
    return {"schema": "dpbench.compare", "schema_version": {"major": 1, "minor": 2}, "base": "20261121T063057Z-a-m",
            "new": "20261122T063057Z-b-m", "gate": "failed", "judged": judged,
            "broken": [{"case": ids[2], "why": "rank 1 was killed by signal 9 (SIGKILL)"}], "unmeasured": [],
            "added": [{"case": ids[3], "why": "not in the base run"}], "gone": [{"case": ids[4], "why": "not in the new run"}],
            "differences": [{"field": "torch", "base": "2.10.0", "new": "2.11.0"}]}


def scaled(worlds=(1, 2, 3)):
    """Returns a run of ddp on 64 cores with one gradient bucket of 4 MB. No computation overlaps the reduction of this
    bucket.

    A step in world n takes 10 ms + 2 (n - 1) / n x 4 ms."""
    cases = [case("cpu", step_ns=9.8e6)]
    for world in worlds:
        made = case("ddp", world=world, step_ns=1e7 + 8e6 * (world - 1) / world)
        for launch in made["launches"]:
            for rank in launch["ranks"]:
                rank["phases_ns"] = {"forward": 3e6, "backward": 6e6, "optimizer": 1e6}
                rank["profile"] = {"steps": 10, "step_ns": 1e7, "collectives_per_step": 1, "collective_bytes_per_step": 4e6,
                                   "collectives": [{"op": "allreduce", "phase": "backward", "bytes": 4000000,
                                                    "start_ns": None, "end_ns": None}]}
        cases.append(made)
    made = report(cases)
    made["env"]["cpu"]["usable"] = 64
    return made


def history(number=5):
    """Returns `number` runs of the same cases on successive days."""
    runs = []
    for day in range(number):
        made = copy.deepcopy(usual())
        made["id"] = f"202611{10 + day}T063057Z-{day}1b2c3d-2xEPYC-5f3a"
        made["tool"]["commit"] = f"{day}1b2c3d"
        runs.append(made)
    return runs


def collectives():
    """Returns the Google Benchmark JSON that harness/micro writes with three repetitions."""
    entries = []
    for size in (4, 4096, 407080, 4 << 20, 100_000_000):
        for repetition in range(3):
            wave = 1 + 0.1 * repetition
            entries.append({"name": f"allreduce_arms/{size}/iterations:201", "run_type": "iteration", "repetition_index": repetition,
                            "gloo_us": (60 + size / 900) * wave, "shm_us": (4 + size / 4000) * wave, "memcpy_us": (0.1 + size / 9000) * wave,
                            "gloo/shm": 9.0})
        entries.append({"name": f"allreduce_arms/{size}/iterations:201_median", "run_type": "aggregate", "gloo_us": 1})
    context = {"date": "2026-11-21T06:30:57+00:00", "num_cpus": 2, "world": "2", "machine": "2xEPYC-5f3a", "commit": "a1b2c3d"}
    return {"context": context, "benchmarks": entries}
