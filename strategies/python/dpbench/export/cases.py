"""Reads the report of a run for the exporters: each case with its settings, figures, curves and tags."""
import dataclasses
import datetime
import json
import math
import os
import re

from dpbench.errors import UsageError

MAJOR = 1  # the major version of the reports that this package reads
# For each tag of a run, the path of keys to its value in the object `env` of the report.
MACHINE = {"cpu": ("cpu", "model"), "cores": ("cpu", "usable"), "machine": ("fingerprint",),
           "torch": ("versions", "torch"), "cuda": ("versions", "cuda"), "nccl": ("versions", "nccl")}
FIGURES = ("derived", "training")  # objects of a case; each number in them is exported


@dataclasses.dataclass
class Case:
    name: str
    ok: bool
    settings: dict  # {name: text, number or truth value}; a parameter of the strategy is param.NAME
    figures: dict  # {"step_time_ns/median": number}: the object of the report and the key, which ends in the unit
    curves: dict  # {name: [(index, number)]}
    tags: dict


@dataclasses.dataclass
class Run:
    name: str
    path: str  # path of the report's file, which exporters store with the run
    time_s: float  # start of the run, in seconds since 1970
    end_s: float  # end of the run; equals time_s if the report has no end (before version 1.10, or interrupted)
    tags: dict
    cases: list


def plain(values):
    """Returns the members of a report's object that are neither lists nor objects."""
    return {key: value for key, value in values.items() if not isinstance(value, (list, dict))}


def of(mapping, *keys):
    """Returns the value at a path of keys in nested objects, or None if one is missing."""
    for key in keys:
        mapping = mapping.get(key) if isinstance(mapping, dict) else None
    return mapping


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def told(values):
    """Returns the values as text, without those that are None or empty."""
    return {key: str(value) for key, value in values.items() if value not in (None, "")}


def tags_of(report):
    env, tool = report["env"], report["tool"]
    found = {"run": report["id"], "commit": tool.get("directory_commit") or tool.get("commit"),
             "dpbench_version": tool.get("version"), "dpbench_commit": tool.get("commit"),
             "run_status": report["status"], "disturbance": report.get("disturbance")}
    found |= {name: of(env, *place) for name, place in MACHINE.items()}
    found["gpus"] = ", ".join(str(gpu.get("name") or "GPU") for gpu in env.get("gpus") or [])
    given = of(report, "config", "tags") or {}
    return told(found | {f"tag.{name}": value for name, value in given.items()})


def settings_of(raw):
    """Returns the settings of a case that have a value."""
    found = {key: value for key, value in plain(raw).items() if key not in ("id", "status", "reason")}
    found |= {f"param.{name}": value for name, value in (raw.get("params") or {}).items()}
    return {key: value for key, value in found.items() if value not in (None, "")}


def figures_of(raw):
    groups = {name: raw.get(name) or {} for name in FIGURES}
    groups["step_time_ns"] = of(raw, "stats", "step_time_ns") or {}
    groups["phases_ns"] = of(raw, "phases", "mean_step_ns") or {}
    verdicts = [check["status"] for check in raw.get("checks") or []]
    groups["checks"] = {status: verdicts.count(status) for status in dict.fromkeys(verdicts)}
    return {f"{group}/{key}": value for group, values in groups.items() for key, value in values.items()
            if is_number(value)}


def block_times(raw):
    """Returns the slowest rank's time per step in each timed block, launch by launch."""
    times = []
    for launch in raw.get("launches") or []:
        ranks = [[ns / rank["steps_per_sample"] for ns in rank["samples_ns"]] for rank in launch["ranks"]
                 if rank["steps_per_sample"]]
        times += [max(block) for block in zip(*ranks)]
    return times


def curves_of(raw):
    training = raw.get("training") or {}
    epochs = training.get("accuracy") or []  # accuracies of the last epochs; earlier epochs were not evaluated
    first = len(training.get("epoch_losses") or []) - len(epochs) + 1
    found = {"block/step_ns": enumerate(block_times(raw), 1), "loss": enumerate(training.get("loss_curve") or [], 1),
             "accuracy": ((epoch * training["steps_per_epoch"], share) for epoch, share in enumerate(epochs, first))}
    known = {name: [(index, value) for index, value in points if is_number(value)] for name, points in found.items()}
    return {name: points for name, points in known.items() if points}


def case_of(raw, tags):
    return Case(raw["id"], raw["status"] == "ok", settings_of(raw), figures_of(raw), curves_of(raw),
                tags | told({"status": raw["status"], "reason": raw.get("reason")}))


def seconds_of(text, form):
    return datetime.datetime.strptime(text, form).replace(tzinfo=datetime.timezone.utc).timestamp()


def start_of(name):
    """Returns the start time with which a run's name begins, in seconds since 1970. Refuses a name that is not safe as
    the name of a folder, which exporters create."""
    if not re.fullmatch(r"\d{8}T\d{6}Z-[\w.+-]+", name):
        raise ValueError(f"id {name!r} is not <UTC time>-<commit>-<machine>")
    return seconds_of(name[:16], "%Y%m%dT%H%M%SZ")


def run_of(report, path):
    tags = tags_of(report)
    name, cases = report["id"], [case_of(raw, tags) for raw in report["cases"]]
    start, ended = start_of(name), report.get("ended")
    end = seconds_of(ended, "%Y-%m-%dT%H:%M:%SZ") if ended else start
    return Run(name, os.path.abspath(path), start, end, tags, cases)


def read(path):
    """Reads a run.json. Throws UsageError with the file's name if it is something else or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON ({error})") from error
    if of(report, "schema") != "dpbench.run":
        raise UsageError(f"{path}: not the report of a run: its \"schema\" is not \"dpbench.run\"")
    if of(report, "schema_version", "major") != MAJOR:
        raise UsageError(f"{path}: not a report of major version {MAJOR}. Use the dpbench that wrote it")
    try:
        return run_of(report, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: not a whole report ({why}). Type: dpbench validate {path}") from error
