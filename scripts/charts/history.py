"""Charts of each case's step time over several runs, oldest first."""
import messages
import words
from canvas import Chart, Looks
from data import count
from palette import LIGHT

MOST_LINES = 7


def history(runs, groups):
    """Yields charts of step time over runs: one for each of the given groups of cases and each world."""
    kept = {}
    for run in sorted(runs, key=lambda run: run.id):
        for case in run.cases:
            if case.measured and not case.projected and case.group in groups:
                kept.setdefault((case.group, case.world), {}).setdefault(case.id, {})[run.id] = case
    for (group, world), by_case in kept.items():
        lines = [points for points in by_case.values() if len(points) > 1]
        for start in range(0, len(lines), MOST_LINES):
            yield chart_of(lines[start:start + MOST_LINES], world, start // MOST_LINES)


def chart_of(lines, world, part):
    cases = [case for points in lines for case in points.values()]
    first = cases[0]
    runs = sorted({run for points in lines for run in points})
    by_id = {case.run.id: case.run for case in cases}
    chart = Chart(f"history-{first.workload}-{first.device}-{first.scaling}-{world}" + (f"-{part + 1}" if part else ""),
                  f"History at world {world}", first.workload, first.setting,
                  message=messages.history([[points[run] for run in sorted(points)] for points in lines]))
    axes = chart.axes(3.1)
    size, unit = words.time_unit(max(case.step_ns.middle for case in cases))
    looks = Looks.of(cases)
    for points in lines:
        one = next(iter(points.values()))
        look = looks.line(one.drawn_as)
        order = sorted(points)
        spans = [points[run].step_ns.scaled(1 / size) for run in order]
        sayings = [f"{one.series}, {by_id[run].time or run}, commit {by_id[run].commit}: {words.interval(span, ' ' + unit)}"
                   for run, span in zip(order, spans)]
        chart.series(axes, one.series, look, [runs.index(run) for run in order], spans, sayings)
    step = -(-len(runs) // 6)
    axes.set_xticks(range(0, len(runs), step), [f"{by_id[run].time[5:10]}\n{by_id[run].commit[:7]}" for run in runs[::step]])
    axes.set_xlim(-0.4, len(runs) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"step time, {unit}")
    axes.set_xlabel("run: date and commit")
    axes.tick_params(axis="x", labelcolor=LIGHT["muted"])
    chart.legend()
    chart.caption = f"{count(len(runs), 'run')} on one machine. {words.bars(cases)} {words.source(cases)}"
    return chart
