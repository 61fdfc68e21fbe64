"""Reads run.json for the charts and the HTML page: cases with their figures, in groups of equal settings that may share
a chart."""
import dataclasses
import itertools
import json
import math

import markup

BASELINES = ("cpu", "gpu")  # names of baseline strategies, for reports of version 1.0, which do not mark baselines
# Value of the key `means` if a step uses the mean gradient of the whole batch, as the baseline does
# (harness/report/record/report.h).
BATCH_MEAN = "batch mean"
DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def of(mapping, *keys):
    """Returns the value at a path of keys in nested dictionaries, or None if a key is missing."""
    for key in keys:
        mapping = mapping.get(key) if isinstance(mapping, dict) else None
    return mapping


def count(number, word):
    """Returns number and noun, e.g. "1 launch" or "2 launches"."""
    ending = "" if number == 1 else "es" if word.endswith(("ch", "s")) else "s"
    return f"{number:,} {word}{ending}"


class Run:
    def __init__(self, report):
        self.report = report
        self.only_checks = not report["id"]  # `dpbench check` writes reports without id
        self.id = report["id"] or "checks"
        self.status = report["status"]
        self.commit = of(report, "tool", "directory_commit") or of(report, "tool", "commit") or "unknown"
        self.fingerprint = of(report, "env", "fingerprint") or "unknown"
        self.marks_baselines = of(report, "schema_version", "minor") != 0
        self.reference = of(report, "config", "reference")  # strategy of --reference; empty: the baseline
        self.cases = [Case(self, raw) for raw in report["cases"]]

    @property
    def time(self):
        """Returns the start time from the run's id, e.g. "2026-11-21 06:30 UTC", or "" if the id has none."""
        digits = self.id[:15]
        if len(digits) < 15 or not (digits[:8] + digits[9:]).isdigit():
            return ""
        return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[9:11]}:{digits[11:13]} UTC"

    @property
    def disturbance(self):
        return self.report.get("disturbance") or ""

    @property
    def cores(self):
        """Returns the number of cores that the run's ranks shared, over all hosts; 0 if unknown."""
        env = self.report["env"]
        cores = of(env, "cpu", "usable") or 0
        limit = of(env, "limits", "cpus")
        return (min(cores, max(1, int(limit))) if limit else cores) * max(1, len(env.get("hosts") or []))

    @property
    def machine(self):
        names = [gpu.get("name") or "GPU" for gpu in of(self.report, "env", "gpus") or []]
        gpus = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
        cores = of(self.report, "env", "cpu", "usable")
        model = of(self.report, "env", "cpu", "model") or "an unknown CPU"
        return " and ".join(gpus + ([f"{count(cores, 'core')} of {model}"] if cores else [model]))


def settings_in(case_id, params):
    """Returns (name, value) of each setting that a case's id names because it is not the default, except the
    mesh and the parameters."""
    of_params = "".join(f"/{name}={value}" for name, value in params.items())
    pairs = [word.split("=", 1) for word in case_id.removesuffix(of_params).split("/") if "=" in word]
    return tuple((name, value) for name, value in pairs if name != "mesh")


@dataclasses.dataclass
class Interval:
    middle: float
    low: float
    high: float

    def scaled(self, factor):
        return Interval(self.middle * factor, self.low * factor, self.high * factor)

    def below(self, number):
        """Returns the confidence interval of the quotient number / self."""
        return Interval(number / self.middle, number / self.high, number / self.low)

    def over(self, other):
        """Returns the confidence interval of the quotient self / other for independent measurements: the squares of
        the logarithmic widths add up."""
        middle = self.middle / other.middle
        up = math.hypot(math.log(self.high / self.middle), math.log(other.middle / other.low))
        down = math.hypot(math.log(self.middle / self.low), math.log(other.high / other.middle))
        return Interval(middle, middle * math.exp(-down), middle * math.exp(up))


class Case:
    def __init__(self, run, raw):
        self.run, self.raw = run, raw
        for key in ("id", "strategy", "workload", "device", "world", "backend", "scaling", "batch", "dtype", "status"):
            setattr(self, key, raw[key])
        self.reason = raw.get("reason") or ""
        self.params = raw.get("params") or {}
        self.named_settings = settings_in(raw["id"], self.params)
        self.checks = raw.get("checks") or []
        self.remarks = (raw.get("warnings") or []) + (raw.get("notices") or [])
        self.means = raw.get("means") or ""
        self.runtime = raw.get("runtime") or "fast"  # reports before version 1.5 have only the runtime "fast"
        if "runtime" not in raw:
            self.id += "/fast"
        # label() adds the mesh, and backend and parameters if they differ within the strategy. drawn_as leaves out
        # "(projection)", because a projection has the colour of the measured series.
        self.series = self.drawn_as = self.strategy
        self.outdated = False  # True: newest() chose this case although a newer run has the case without a figure
        self.absences = ""  # caption sentences on the cases of its group that are outdated or not drawn
        self.is_baseline = raw["baseline"] if run.marks_baselines else self.strategy in BASELINES
        self.projected = raw.get("projected") is True  # True: computed by `dpbench project`, not measured
        self.derived = raw.get("derived") or {}
        self.phases = of(raw, "phases", "mean_step_ns") or {}
        self.summary = of(raw, "stats", "step_time_ns")

    @property
    def measured(self):
        return self.status == "ok" and self.summary is not None

    @property
    def step_ns(self):
        s = self.summary  # with few blocks, the confidence interval may just miss the median
        ends = [s[key] for key in ("median", "ci95_low", "ci95_high") if s.get(key)]
        return Interval(s["median"], min(ends), max(ends))

    @property
    def rows_per_s(self):
        speed = self.derived.get("samples_per_s")
        return self.step_ns.below(speed * self.step_ns.middle) if speed else None

    @property
    def speedup(self):
        """Returns the speed-up over the reference: the baseline, or the strategy of --reference. Its interval comes
        from pairs of neighbouring blocks; reports before version 1.5 have no pairs and therefore no interval."""
        value = self.derived.get("speedup")
        if not value:
            return None
        ends = [value] + [self.derived[key] for key in ("speedup_low", "speedup_high") if self.derived.get(key)]
        return Interval(value, min(ends), max(ends))

    @property
    def efficiency(self):
        """Returns the efficiency, with its interval if it has one. None if replicas shared cores, because ideal scaling
        is then undefined."""
        value = self.derived.get("efficiency")
        if not value or ceiling(self, self.world) < self.world:
            return None
        low, high = (self.derived.get(key) or value for key in ("efficiency_low", "efficiency_high"))
        return Interval(value, low, high)

    @property
    def busy(self):
        """True if other programs, or the host of a virtual machine, took at least a quarter of a core and at least 5 %
        of the run's cores during a launch (harness/report/figures/disturbance.h)."""
        loads = [launch.get("others") or {} for launch in self.raw.get("launches") or []]
        most = max((load.get(by) or 0 for load in loads for by in ("programs", "host")), default=0)
        return most >= max(0.25, 0.05 * self.run.cores)

    @property
    def other_mathematics(self):
        """True if a step computes something else than the baseline's step, so that their speeds cannot be compared."""
        return self.means not in ("", BATCH_MEAN)

    @property
    def computes_as_baseline(self):
        """True if the case was checked and a step computes the same as the baseline's. The key `means` tells this; in
        reports before 1.5, which lack the key, a passed check tells it."""
        proven = any(check["name"] == "gradient-vs-baseline" and check["status"] == "passed" for check in self.checks)
        return bool(self.checks) and (self.means == BATCH_MEAN if self.means else proven)

    @property
    def launches(self):
        """Returns a list per launch (one start of the processes): for each timed block of steps, the time per step of
        the slowest rank."""
        result = []
        for launch in self.raw.get("launches") or []:
            ranks = [rank for rank in launch["ranks"] if rank["samples_ns"] and rank["steps_per_sample"]]
            if ranks:
                columns = zip(*([ns / rank["steps_per_sample"] for ns in rank["samples_ns"]] for rank in ranks))
                result.append([max(column) for column in columns])
        return result

    @property
    def peaks(self):
        """Returns the peak memory in bytes of the rank with the most memory, for each launch."""
        sizes = [max((rank.get("peak_device_bytes") or rank.get("own_rss_bytes") or rank.get("peak_rss_bytes") or 0 for rank in launch["ranks"]), default=0)
                 for launch in self.raw.get("launches") or []]
        return [size for size in sizes if size]

    @property
    def memory_parts(self):
        """Returns the bytes of each part of the memory of tensors, on the rank that needs the most memory; {} if
        unknown or all parts are 0."""
        ranks = [rank for launch in self.raw.get("launches") or [] for rank in launch["ranks"]]
        found = [of(rank, "profile", "memory") or {} for rank in ranks]
        return max((parts for parts in found if any(parts.values())), key=lambda parts: sum(parts.values()), default={})

    @property
    def group(self):
        return (self.batch, *self.group_of_batches)

    @property
    def group_of_batches(self):
        """Returns the settings that cases of a group share, except the batch."""
        raw = self.raw
        return (self.runtime, self.run.fingerprint, self.workload, self.device, self.scaling, self.dtype,
                raw.get("clip_norm"), raw.get("threads", 1), raw.get("data_dir", ""),
                raw.get("oversubscribe", False), self.means if self.other_mathematics else "", self.named_settings)

    @property
    def setting(self):
        """Returns text on the settings that all cases of a group share."""
        raw = self.raw
        rows = f"global batch {self.batch}" if self.scaling == "strong" else f"{self.batch} samples per device"
        words = [DEVICES.get(self.device, self.device), f"{self.scaling} scaling, {rows}", self.dtype, f"{self.runtime} runtime"]
        words += [f"recomputes every {value} blocks" if name == "recompute" else f"{name} {value}"
                  for name, value in self.named_settings]
        words += [f"clipped at {raw['clip_norm']:g}"] if raw.get("clip_norm") else []
        words += ["oversubscribed"] if raw.get("oversubscribe") else []
        words += [f"other mathematics: {self.means}"] if self.other_mathematics else []
        return " · ".join(words + [f"{count(raw.get('threads', 1), 'thread')} per replica"])


def label(cases):
    """Names each case's series (line of a chart): the strategy, plus backend and parameters if they differ within the
    strategy."""
    for case in cases:
        alike = [other for other in cases if other.strategy == case.strategy and other.group == case.group]
        words = [case.strategy]
        if len({other.backend for other in alike if other.backend != "none"}) > 1 and case.backend != "none":
            words.append(case.backend)
        if len({tuple(sorted(other.params.items())) for other in alike}) > 1:
            words += [f"{key}={value}" for key, value in sorted(case.params.items())]
        words += [case.raw["mesh"]] if case.raw.get("mesh") else []
        case.drawn_as = " ".join(words)
        case.series = case.drawn_as + " (projection)" * case.projected


def newest(runs):
    """Returns each case on each machine once: its newest successful measurement, or its oldest record if there is
    none. Marks a measurement as outdated if a newer run has the case without a figure."""
    found = {}
    for run in sorted(runs, key=lambda run: run.id):
        for case in run.cases:
            older = found.get((run.fingerprint, case.id))
            if case.measured or not older:
                found[run.fingerprint, case.id] = case
            elif not run.only_checks:
                older.outdated = older.measured
    return list(found.values())


def groups(cases):
    """Returns lists of cases with equal settings, which may share a chart, in the order of the report."""
    found = {}
    for case in cases:
        found.setdefault(case.group, []).append(case)
    return list(found.values())


def by_series(cases):
    found = {}
    for case in sorted(cases, key=lambda case: (not case.is_baseline, case.world)):
        found.setdefault(case.series, []).append(case)
    return found


def ceiling(case, world):
    """Returns the largest possible speed-up in a world: the world, but on the CPU at most the number of replicas that
    have cores of their own."""
    cores = case.run.cores
    return min(world, cores / case.raw.get("threads", 1)) if case.device == "cpu" and cores else world


def baseline_of(cases):
    """Returns the baseline case of a group, or None if the baseline was not measured."""
    return next((case for case in cases if case.is_baseline and case.world == 1), None)


def speedup_over(case, base):
    """Returns the speed-up over the baseline with the interval of its pairs of blocks. With --reference and in old
    reports there are no such pairs: the interval is that of two separate measurements."""
    paired = case.derived.get("speedup_low") is not None
    return case.speedup if paired and not case.run.reference else case.rows_per_s.over(base.rows_per_s)


def cleaned(value):
    """Returns parsed JSON without the control characters in its texts, which charts cannot show."""
    if isinstance(value, str):
        return value if value.isprintable() else markup.clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    return value


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return cleaned(json.load(file))


def read_runs(paths, answers=None):
    """Returns the runs stored at `paths`. `answers`: a JSON file with the answers, by path, of runs that store none."""
    computed = read_json(answers) if answers else {}
    return [Run({"answer": computed.get(path)} | read_json(path)) for path in paths]


def add_projection(runs, path):
    """Adds the cases that `dpbench project` predicted to the run from which it predicted them, or to the newest run if
    that run is not shown. `path`: the output file of `dpbench project`."""
    projection = read_json(path)
    home = next((run for run in runs if run.id == projection.get("run")), max(runs, key=lambda run: run.id))
    for series in projection["series"]:
        fitted = [one["world"] for one in series["fitted"]]
        for raw in series["cases"]:
            projected = {"id": f"{raw['id']} (projection)", "projected": True, "fitted": fitted}
            home.cases.append(Case(home, raw | projected))


def read_collectives(path):
    """Returns {message bytes: {"shm, world 2": [microseconds per repetition]}} and the context (machine, commit) from
    the JSON of dpbench-micro."""
    report = read_json(path)
    sizes = {}
    for entry in report["benchmarks"]:
        words = str(entry.get("name", "")).split("/")
        if entry.get("wrong"):  # the entry has a number of wrong elements
            continue
        if words[0] == "allreduce" and entry.get("run_type") == "iteration" and isinstance(entry.get("time_us"), (int, float)):
            # Turns "backend:shm" and "world:2" into "shm, world 2". A type and a reduction may follow.
            choices = itertools.takewhile(lambda word: not word.startswith("bytes:"), words[1:])
            arm = ", ".join(word.replace("backend:", "").replace(":", " ") for word in choices)
            sizes.setdefault(int(entry["bytes"]), {}).setdefault(arm, []).append(entry["time_us"])
            continue
        if entry.get("run_type", "iteration") != "iteration" or len(words) < 2 or not words[1].isdigit():
            continue
        for key, value in entry.items():
            if key.endswith("_us") and isinstance(value, (int, float)) and value > 0:
                sizes.setdefault(int(words[1]), {}).setdefault(key[:-3], []).append(value)
    return sizes, report.get("context") or {}
