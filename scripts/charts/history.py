"""How fast the same cases were in run after run."""
import words
from canvas import Chart
from data import count
from palette import LIGHT

MOST_LINES = 7


def history(runs, looks, groups):
    """A chart for each group of cases, of those given, and each world."""
    kept = {}
    for run in sorted(runs, key=lambda run: run.id):
        for case in run.cases:
            if case.measured and not case.projected and case.group in groups:
                kept.setdefault((case.group, case.world), {}).setdefault(case.id, {})[run.id] = case
    for (group, world), by_case in kept.items():
        lines = [points for points in by_case.values() if len(points) > 1]
        for start in range(0, len(lines), MOST_LINES):
            yield chart_of(lines[start:start + MOST_LINES], world, looks, start // MOST_LINES)


def chart_of(lines, world, looks, part):
    cases = [case for points in lines for case in points.values()]
    first = cases[0]
    runs = sorted({run for points in lines for run in points})
    by_id = {case.run.id: case.run for case in cases}
    chart = Chart(f"history-{first.workload}-{first.device}-{first.scaling}-{world}" + (f"-{part + 1}" if part else ""), 
                  f"History at world {world}", first.workload, first.setting)
    axes = chart.axes(3.1)
    size, unit = words.time_unit(max(case.step_ns.middle for case in cases))
    for index, points in enumerate(lines):
        name = next(iter(points.values())).series
        look = looks.line(name, first.is_baseline if len(lines) == 1 else next(iter(points.values())).is_baseline)
        xs = [runs.index(run) + (index - (len(lines) - 1) / 2) * 0.03 for run in sorted(points)]
        spans = [points[run].step_ns.scaled(1 / size) for run in sorted(points)]
        axes.plot(xs, [span.middle for span in spans], **{**look, "marker": None}, zorder=3)
        axes.errorbar(xs, [span.middle for span in spans], fmt="none", ecolor=look["color"], elinewidth=1.1, zorder=3,
                      yerr=[[span.middle - span.low for span in spans], [span.high - span.middle for span in spans]])
        for x, span, run in zip(xs, spans, sorted(points)):
            (point,) = axes.plot([x], [span.middle], linestyle="none", color=look["color"], marker=look["marker"], zorder=4)
            chart.mark(point, f"{name}, {by_id[run].time or run}, commit {by_id[run].commit}: {words.interval(span, ' ' + unit)}")
        axes.plot([], [], **look, label=name)
    step = -(-len(runs) // 6)
    axes.set_xticks(range(0, len(runs), step), [f"{by_id[run].time[5:10]}\n{by_id[run].commit[:7]}" for run in runs[::step]])
    axes.set_xlim(-0.4, len(runs) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"step time, {unit}")
    axes.set_xlabel("run: date and commit")
    axes.tick_params(axis="x", labelcolor=LIGHT["muted"])
    chart.legend()
    chart.caption = f"{count(len(runs), 'run')} of one machine. {words.bars(cases)} {words.source(cases)}"
    return chart
