"""Chart of `dpbench tune`: the speed of each candidate, as a multiple of the default values' speed."""
import messages
import words
from canvas import Chart
from cases import MOST_ROWS, bar_with_interval, labelled_axes
from data import Interval, count, of
from palette import LIGHT, role_of


def tuning(runs):
    for run in runs:
        tuned = of(run.report, "config", "tuned") or []
        judged = {one["case"]: Interval(one["speedup"], one["low"], one["high"]) for one in tuned}
        verdicts = {one["case"]: one.get("verdict") for one in tuned}
        if not judged:
            continue
        # batch of the case with default values; None: each batch has such a case
        batch = of(run.report, "config", "reference_batch")
        found = {}
        for case in run.cases:
            if case.measured and case.speedup:
                setting = case.group_of_batches if batch else case.group
                found.setdefault((*setting, case.world, case.raw.get("mesh"), case.backend), []).append(case)
        for members in found.values():
            default = next((case for case in members if not case.params and case.batch == (batch or case.batch)), None)
            if default and len(members) > 1:
                yield candidates(default, members, judged, verdicts)


def candidates(default, members, judged, verdicts):
    spans = {case.raw["id"]: judged.get(case.raw["id"], case.speedup) for case in members}
    rows = sorted(members, key=lambda case: -spans[case.raw["id"]].middle)[:MOST_ROWS]
    judged_members = [case for case in members if case.raw["id"] in verdicts]
    message = messages.tuning({values(case, default): verdicts[case.raw["id"]] for case in judged_members})
    chart = Chart(f"tune-{default.workload}-{default.device}", "Candidates", default.workload, default.setting,
                  message=message)
    axes = labelled_axes(chart, [values(case, default) for case in rows])
    for row, case in enumerate(rows):
        span = spans[case.raw["id"]]
        kept = case is default or case.raw["id"] in judged
        bar = bar_with_interval(axes, row, span, LIGHT[role_of(default.strategy)], alpha=1 if kept else 0.45)
        launches = count(len(case.launches), "launch")
        chart.mark(bar, f"{values(case, default)}: {words.interval(span, 'x')} of the default, {launches}")
    axes.axvline(1, color=LIGHT["muted"], linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)
    axes.set_xlim(left=0)
    axes.set_xlabel("samples/s, as a multiple of the default's")
    chart.caption = (f"{default.strategy}, world {default.world}. Median and 95 % interval of pairs of blocks; of the "
                     f"last candidate, only in launches after its choice. Pale: dropped before. {words.source(rows)}")
    return chart


def values(case, default):
    given = [f"batch {case.batch}"] if case.batch != default.batch else []
    return ", ".join(given + [f"{name}={value}" for name, value in sorted(case.params.items())]) or "default"
