"""Charts of throughput, efficiency and speed-up by world (number of replicas)."""
import math

import messages
import words
from canvas import Chart, Looks, decades
from data import Interval, baseline_of, by_series, ceiling, groups, speedup_over
from palette import LIGHT


MOST_SERIES = 8


def worlds_axis(axes, worlds):
    """Sets up the x axis, the number of replicas: logarithmic if a world exceeds 8, otherwise linear."""
    worlds = sorted(worlds)
    far = worlds[-1] > 8
    if far:
        axes.set_xscale("log", base=2)
    shown = worlds if len(worlds) <= 9 else worlds[::math.ceil(len(worlds) / 8)]
    axes.set_xticks(shown, [str(world) for world in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("world (model replicas)" + ", log scale" * far)
    margin = 0.35 if not far else 0
    axes.set_xlim(*(worlds[0] / 1.2, worlds[-1] * 1.2) if far else (worlds[0] - margin, worlds[-1] + margin))


def values_axis(axes, top, bottom, unit):
    """Sets up the y axis: from 0, or logarithmic if the smallest value would be invisible beside the largest."""
    axes.set_ylabel(unit)
    if top < 15 * bottom:
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    axes.set_ylabel(f"{unit}, log scale")
    decades(axes.yaxis, lambda value: words.significant(value, 6))


def lines(chart, axes, cases, span_of, say):
    """Draws a line for each series (strategy with its parameters) over the worlds."""
    worlds_axis(axes, {case.world for case in cases})
    looks = Looks.of(cases)
    for name, members in by_series(cases).items():
        look = looks.line(members[0].drawn_as)
        if members[0].projected:
            look |= {"linestyle": (0, (2, 2)), "markerfacecolor": LIGHT["ground"], "markeredgecolor": look["color"],
                     "markeredgewidth": 1}
        spans = [span_of(case) for case in members]
        sayings = [f"{name}, world {case.world}: {say(case, span)}" for case, span in zip(members, spans)]
        chart.series(axes, name, look, [case.world for case in members], spans, sayings)


def ideal_line(chart, axes, case, worlds, values):
    """Draws the dashed line of linear scaling: "ideal", or "ceiling of the cores" if the replicas of the largest world
    share cores. Returns what a caption adds to "linear scaling": nothing, or the ceiling."""
    name = "ideal" if ceiling(case, worlds[-1]) == worlds[-1] else "ceiling of the cores"
    (line,) = axes.plot(worlds, values, linestyle=(0, (5, 3)), color=LIGHT["muted"], linewidth=1.1, label=name,
                        zorder=2)
    chart.belongs(name, line)
    return "" if name == "ideal" else f", up to the {name}"


def fastest(group):
    """Returns the cases of the baseline and the fastest series (at most MOST_SERIES series, compared at their largest
    world), and caption sentences on omitted series, projections, and cases that are outdated or not drawn."""
    series = by_series(group)
    last = {name: members[-1] for name, members in series.items()}
    best = sorted(series, key=lambda name: (not last[name].is_baseline, -last[name].world, -last[name].rows_per_s.middle))
    kept = set(best[:MOST_SERIES])
    fitted = sorted({world for case in group if case.projected for world in case.raw["fitted"]})
    note = (f" Hollow and dashed: a projection fitted to worlds {words.listed([str(world) for world in fitted])}, not "
            "measured; its bars show the fit's uncertainty only." if fitted else "")
    note += f" The {MOST_SERIES} fastest of {len(series)} series; the table has all." if len(series) > MOST_SERIES else ""
    return [case for case in group if case.series in kept], note + (group[0].absences if group else "")


def scaled(cases):
    """True if the cases have more than one world; otherwise there is no scaling to draw."""
    return len({case.world for case in cases}) > 1


def throughput(cases):
    for group in groups(cases):
        known = [case for case in group if case.rows_per_s]
        group, note = fastest(known)
        if not scaled(group):
            continue
        first = group[0]
        chart = Chart(f"throughput-{first.workload}-{first.device}-{first.scaling}", "Throughput", first.workload,
                      first.setting, message=messages.throughput(known, baseline_of(known)))
        axes = chart.axes()
        top = max(case.rows_per_s.middle for case in group)
        factor, unit = (1e-6, "million samples/s") if top >= 2e6 else (1e-3, "thousand samples/s") if top >= 2e3 else (1, "samples/s")
        lines(chart, axes, group, lambda case: case.rows_per_s.scaled(factor),
              lambda case, span: words.interval(span, "", 1 / factor, 4) + " samples/s")
        start = baseline_of(group) or min(group, key=lambda case: (case.world, -case.rows_per_s.middle))
        worlds = sorted({start.world} | {case.world for case in group if case.world >= start.world})
        ideal = [start.rows_per_s.middle * factor * ceiling(start, world) / ceiling(start, start.world) for world in worlds]
        limit = ideal_line(chart, axes, start, worlds, ideal)
        values_axis(axes, max(ideal), min(case.rows_per_s.middle for case in group) * factor, unit)
        chart.legend()
        chart.caption = (f"Dashed: linear scaling of {start.series} at world {start.world}{limit}. "
                         f"{words.bars(group)} {words.source(group)}{note}")
        yield chart


def efficiency(cases):
    for group in groups(cases):
        base = baseline_of(group)
        known = [case for case in group if case.rows_per_s and case.derived.get("efficiency") is not None]
        group, note = fastest(known)
        if not base or not base.rows_per_s or not scaled(group):
            continue

        def span(case):
            if case is base:
                return Interval(100, 100, 100)
            return speedup_over(case, base).scaled(100 / case.world)
        first = group[0]
        chart = Chart(f"efficiency-{first.workload}-{first.device}-{first.scaling}",
                      f"{first.scaling.capitalize()} efficiency", first.workload, first.setting,
                      message=messages.efficiency(known, base))
        axes = chart.axes()
        lines(chart, axes, group, span, lambda case, value: words.interval(value, " %"))
        worlds = sorted({case.world for case in group})
        ideal_line(chart, axes, base, worlds, [100 * ceiling(base, world) / world for world in worlds])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("efficiency, %")
        chart.legend()
        chart.caption = (f"Throughput / world relative to {base.series}. {words.bars(group)[:-1]} of pairs of "
                         f"neighbouring blocks. {words.source(group)}{note}")
        yield chart


def side_by_side(cases):
    """Draws bars that compare the strategies' speed-up over the baseline, in the six largest worlds."""
    for group in groups(cases):
        base = baseline_of(group)
        known = [case for case in group if not case.is_baseline and case.rows_per_s]
        shown, note = fastest(known)
        series = by_series(shown)
        if len(series) < 2 or not base or not base.rows_per_s:
            continue
        worlds = sorted({case.world for case in shown})[-6:]
        first = group[0]
        chart = Chart(f"strategies-{first.workload}-{first.device}-{first.scaling}", "Strategies side by side", first.workload,
                      first.setting, message=messages.against_baseline(known, base))
        axes = chart.axes()
        looks = Looks.of(shown)
        width = 0.8 / len(series)
        for index, (name, members) in enumerate(series.items()):
            for case in (case for case in members if case.world in worlds):
                span = speedup_over(case, base)
                x = worlds.index(case.world) + (index - (len(series) - 1) / 2) * width
                (bar,) = axes.bar([x], [span.middle], width * 0.92, color=looks.colour(name), zorder=2)
                (_, caps, bars) = axes.errorbar([x], [span.middle],
                                                [[span.middle - span.low], [span.high - span.middle]],
                                                fmt="none", ecolor=LIGHT["ink"], elinewidth=1, capsize=2, zorder=3)
                chart.mark(bar, f"{name}, world {case.world}: {words.interval(span, 'x')} of {base.series}")
                chart.belongs(name, bar, *caps, *bars)
        handles = [axes.bar([0], [0], color=looks.colour(name)) for name in series]
        axes.axhline(1, color=LIGHT["muted"], linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)
        axes.set_xticks(range(len(worlds)), [f"world {world}" for world in worlds] if len(worlds) < 5 else [str(w) for w in worlds])
        axes.grid(axis="x", visible=False)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(f"speed-up over {base.series}")
        chart.legend(handles, list(series))
        chart.caption = f"Dashed: as fast as {base.series} alone. {words.bars(shown)} {words.source(shown)}{note}"
        yield chart
