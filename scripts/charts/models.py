"""The tables of the parameters of the models that runs trained, for the HTML page. `dpbench list` computes them."""
import json
import re
import resource
import subprocess

from data import count
from markup import el
from tables import scrolling

MOST_BYTES = 1 << 30  # `dpbench list` builds a model to list its parameters; larger models are not built for a page
MOST_MEMORY, TIME_LIMIT_S = 3 << 30, 60  # limits of `dpbench list`, whatever sizes a report names
# The names of dpbench's own workloads and models match these patterns. A report can contain other names, such as
# MODULE:CLASS. `dpbench list` would run the code of such a name, so it is not called for them.
WORKLOAD, MODEL = re.compile("[a-z][a-z0-9-]*"), re.compile("[a-z0-9_=,.-]*")
COLUMNS = ("parameter", "shape", "blocks", "unit of fsdp", "on 2 ranks of tp", "on 2 ranks of ep")


def trained_models(runs):
    """Returns {(workload, model, scale): bytes of the model's parameters} of the measured cases; 0 bytes: unknown."""
    found = {}
    for case in (case for run in runs for case in run.cases if case.measured and not case.projected):
        sizes = [rank.get("model_bytes") or 0 for launch in case.raw.get("launches") or [] for rank in launch["ranks"]]
        key = (case.workload, case.raw.get("model") or "", case.raw.get("scale") or 1)
        found[key] = max([found.get(key, 0), *sizes])
    return found


def words_for(workload, model):
    return ["list", workload, "--parameters"] + ([f"--model={model}"] if model else [])


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def parameters(program, workload, model, scale, size):
    """Returns (rows of `dpbench list WORKLOAD --parameters -o json`, ""), or (None, reason). program: path of
    dpbench."""
    if not (program and WORKLOAD.fullmatch(workload) and MODEL.fullmatch(model)):
        return None, "only the models of dpbench's own workloads are listed here"
    if scale != 1:
        return None, f"models of --scale {scale} are not listed"
    if size > MOST_BYTES:
        command = " ".join(words_for(workload, model))
        return None, f"{size / 2**30:.1f} GiB are too much for a page; dpbench {command} lists it"
    try:
        done = subprocess.run([program, *words_for(workload, model), "-o", "json"], capture_output=True, text=True,
                              errors="replace", check=False, timeout=TIME_LIMIT_S, preexec_fn=limit_memory)
        if done.returncode == 0:
            return json.loads(done.stdout), ""
        return None, (done.stderr.splitlines() or ["no output"])[-1].removeprefix("dpbench: ")[:200]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return None, str(error)


def row(one):
    cells = (" x ".join(str(size) for size in one["sizes"]) or "-", ", ".join(one["blocks"]) or "-", one["unit"],
             one["tp"] or "-", one["ep"] or "-")
    name = el("th", one["name"], scope="row", class_="long" if len(one["name"]) > 28 else None)
    return el("tr", name, [el("td", text) for text in cells])


def table(name, rows):
    head = el("tr", [el("th", column, scope="col") for column in COLUMNS])
    filled = el("table", el("thead", head), el("tbody", [row(one) for one in rows]))
    summary = el("summary", f"{name}: {count(len(rows), 'parameter')}")
    return el("details", summary, scrolling(f"Parameters of {name}", filled))


def models(runs, program):
    """Returns HTML with a folded table for each model of the measured cases, or a line with the reason why it has none;
    None if no case was measured. program: path of dpbench."""
    parts = []
    for (workload, model, scale), size in sorted(trained_models(runs).items()):
        rows, reason = parameters(program, workload, model, scale, size)
        name = f"{workload} {model}".strip()
        parts.append(el("p", el("code", name), f": {reason}") if rows is None else table(name, rows))
    return parts or None
