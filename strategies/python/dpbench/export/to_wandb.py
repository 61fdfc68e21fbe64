"""Writes a run for Weights & Biases as offline files: a W&B run for each case and one for the report, in one group."""
import glob
import hashlib
import os

import wandb

from dpbench.errors import UsageError

PROJECT = "dpbench"


def id_of(run, name):
    """Returns an id that follows from the names, so that a second upload does not make a second run."""
    return hashlib.sha256(f"{run.name} {name}".encode()).hexdigest()[:16]


def started(run, name, kind, folder, config):
    """Starts an offline run."""
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True,
                           x_disable_meta=True)
    return wandb.init(project=PROJECT, group=run.name, job_type=kind, name=name[:128], id=id_of(run, name), dir=folder,
                      mode="offline", config=config, settings=quiet)


def points_by_index(curves):
    """Returns a list of (index, {name: value}), sorted by index, because W&B requires ascending steps."""
    found = {}
    for name, curve in curves.items():
        for index, value in curve:
            found.setdefault(index, {})[name] = value
    return sorted(found.items())


def export(run, folder):
    os.makedirs(folder, exist_ok=True)
    folder = os.path.abspath(folder)
    if glob.glob(f"{glob.escape(folder)}/wandb/offline-run-*-{id_of(run, run.name)}"):
        raise UsageError(f"{folder} has the run {run.name} already. Use another folder")
    # W&B copies the report to these folders, from which `wandb sync` uploads it.
    os.environ |= {"WANDB_DATA_DIR": folder, "WANDB_CACHE_DIR": f"{folder}/cache"}
    for case in run.cases:
        with started(run, case.name, "case", folder, case.settings | {"tags": case.tags}) as one:
            for index, values in points_by_index(case.curves):
                one.log(values, step=index)
            one.summary.update(case.figures)
    with started(run, run.name, "report", folder, {"tags": run.tags}) as whole:
        report = wandb.Artifact("run-" + whole.id, type="dpbench-run", metadata=run.tags)
        report.add_file(run.path, name="run.json")
        whole.log_artifact(report)
    return f"wandb sync {folder}/wandb/offline-run-*"
