"""Charts with one row per case: the phases of a step, the spread of the timed blocks of steps, the memory of tensors by
part, the peak memory."""
import statistics

import messages
import words
from canvas import Chart
from data import Interval, count, groups
from palette import LIGHT, SERIES, role_of

PHASES = ("data", "scatter", "forward", "backward", "communication", "optimizer", "waiting", "graph")
# Parts of the memory of tensors, with the role of their colour.
MEMORY = {"parameters": "forward", "gradients": "backward", "state": "optimizer", "activations": "scatter",
          "buffers": "communication", "temporary": "waiting"}
MOST_ROWS, MOST_POINTS = 24, 150
ROW, FRAME = 0.25, 0.95  # inches: height of a row, and of a chart without rows


def rows_of(group, has):
    """Returns the cases to show (at most MOST_ROWS, baseline first) and caption sentences on omitted and outdated
    cases, empty if all are shown."""
    names = list(dict.fromkeys(case.series for case in group))
    able = sorted(filter(has, group), key=lambda case: (not case.is_baseline, names.index(case.series), case.world))
    kept = able[:MOST_ROWS]
    note = f" The first {len(kept)} of {len(able)} cases; the table has all." if len(kept) < len(able) else ""
    return kept, note + group[0].absences


def row_axes(chart, rows, above=0.0):
    return labelled_axes(chart, [f"{words.short(case.series, 26)} × {case.world}" for case in rows], above)


def labelled_axes(chart, labels, above=0.0):
    """Returns axes with a horizontal row for each label, the first on top."""
    axes = chart.axes(FRAME + above + ROW * len(labels))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])
    axes.spines["left"].set_visible(False)
    return axes


def name_of(kind, case):
    return f"{kind}-{case.workload}-{case.device}-{case.scaling}"


def parts(cases):
    for group in groups(cases):
        rows, note = rows_of(group, lambda case: case.phases)
        if not rows:
            continue
        first = rows[0]
        chart = Chart(name_of("parts", first), "Parts of a step", first.workload, first.setting,
                      message=messages.parts([case for case in group if case.phases]))
        axes = row_axes(chart, rows, 0.25)
        size, unit = words.time_unit(max(case.step_ns.middle for case in rows))
        named = [name for case in rows for name in case.phases]
        present = [name for name in PHASES if name in named] + sorted(set(named) - set(PHASES))
        def piece(case, name):
            ns = max(0.0, case.phases.get(name, 0))
            share = share_of(ns, case.phases.values())
            return ns / size, f"{phase_label(name)} {words.duration(ns)}, {share} of the step"

        stack(chart, axes, rows, [(phase_label(name), colour_of(name, index), [piece(case, name) for case in rows])
                                  for index, name in enumerate(present)])
        for row, case in enumerate(rows):
            span = case.step_ns.scaled(1 / size)
            (line, _, _) = axes.errorbar([span.middle], [row], xerr=[[span.middle - span.low], [span.high - span.middle]], fmt="|",
                                         color=LIGHT["ink"], markersize=8, markeredgewidth=1.3, elinewidth=1, capsize=2, zorder=4)
            chart.mark(line, f"{case.series}, world {case.world}: step {words.interval(case.step_ns.scaled(1 / size), ' ' + unit)}")
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{unit} per step")
        chart.caption = (f"Means over all ranks; communication is the exposed part only. Tick: the median step of "
                         f"the slowest rank. {words.bars(rows)} {words.source(rows)}{note}")
        yield chart


def share_of(part, parts):
    return f"{part / sum(parts):.0%}" if part else "0%"


def stack(chart, axes, rows, parts):
    """Draws a bar per row, stacked from parts, with a legend. parts: (label, colour, pieces), with a piece per row: its
    size, and the text of its tooltip."""
    left = [0.0] * len(rows)
    for _, colour, pieces in parts:
        for row, (size, said) in enumerate(pieces):
            if size == 0:
                continue
            (bar,) = axes.barh([row], [size], 0.66, left[row], color=colour, edgecolor=LIGHT["ground"], linewidth=0.5,
                               zorder=2)
            left[row] += size
            chart.mark(bar, f"{rows[row].series}, world {rows[row].world}: {said}")
    chart.legend([axes.barh([0], [0], color=colour) for _, colour, _ in parts], [label for label, _, _ in parts])


def bar_with_interval(axes, row, span, colour, alpha=1):
    """Draws a bar up to the middle of an interval, and the interval as an error bar."""
    (bar,) = axes.barh([row], [span.middle], 0.66, color=colour, alpha=alpha, zorder=2)
    axes.errorbar([span.middle], [row], xerr=[[span.middle - span.low], [span.high - span.middle]], fmt="none",
                  ecolor=LIGHT["ink"], elinewidth=1, capsize=2, zorder=3)
    return bar


def strategy_colour(case):
    return LIGHT[role_of(case.strategy, case.is_baseline)]


def colour_of(phase, index):
    """Returns the colour of a phase of a step. Phases that a plug-in strategy defines use the series' colours."""
    return LIGHT[phase] if phase in PHASES else LIGHT[SERIES[index % len(SERIES)]]


def phase_label(phase):
    return "exposed comm." if phase == "communication" else phase


def distribution(cases):
    for group in groups(cases):
        rows, note = rows_of(group, lambda case: sum(map(len, case.launches)) > 1)
        if not rows:
            continue
        first = rows[0]
        chart = Chart(name_of("samples", first), "Spread of the blocks", first.workload, first.setting,
                      message=messages.spread([quartiles(offsets(case)) for case in rows]))
        axes = row_axes(chart, rows)
        thinned = 0
        for row, case in enumerate(rows):
            thinned += spread_of(chart, axes, row, case, strategy_colour(case))
        axes.axvline(0, color=LIGHT["muted"], linewidth=0.9, zorder=1)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -1), max(high, 1))
        xlabel = "relative to the median, %"
        if high > 100:
            xlabel += ", log scale beyond 10"
            axes.set_xlim(min(low, -1), high * 1.5)
            axes.set_xscale("symlog", linthresh=10)
            axes.set_xticks([-10, 0, 10, 100] + [1000] * (high > 1000), labels=["−10", "0", "10", "100"] + ["1,000"] * (high > 1000))
        axes.set_xlabel(xlabel)
        if thinned:
            note += (f" {count(thinned, 'case')} with more than {MOST_POINTS} blocks: at most {MOST_POINTS} drawn, "
                     "the slowest among them.")
        chart.caption = f"Dot: a timed block. Band: the middle half of them. {words.source(rows)}{note}"
        yield chart


def spread_of(chart, axes, row, case, colour):
    """Draws the times of a case's blocks of steps as a row of points. Returns True if some points were left out."""
    middle = case.step_ns.middle
    points = sorted((offset_of(value, case), place) for place, launch in enumerate(case.launches) for value in launch)
    usual = [value for value, _ in points]
    low, high = quartiles(usual)
    band = axes.barh([row], [high - low], 0.7, low, color=colour, alpha=0.25, zorder=2)[0]
    drawn = points[::-len(points) // MOST_POINTS]
    number = len(case.launches)
    axes.plot([value for value, _ in drawn], [row + ((place + 0.5) / number - 0.5) * 0.6 for _, place in drawn],
              linestyle="none", zorder=3, marker="o", markersize=2.6, color=colour, markeredgewidth=0)
    chart.mark(band, f"{case.series}, world {case.world}: median {words.duration(middle)}, middle half {low:+.1f} % to {high:+.1f} %, "
                     f"all {usual[0]:+.1f} % to {usual[-1]:+.1f} %, {count(len(points), 'sample')}")
    return len(drawn) < len(points)


def offset_of(ns, case):
    """Returns the distance of a time from the case's median, in percent."""
    return 100 * (ns / case.step_ns.middle - 1)


def offsets(case):
    return sorted(offset_of(value, case) for launch in case.launches for value in launch)


def quartiles(ordered):
    if len(ordered) < 2:
        return ordered[0], ordered[0]
    cut = statistics.quantiles(ordered, n=4, method="inclusive")
    return cut[0], cut[2]


def memory_parts(cases):
    for group in groups(cases):
        rows, note = rows_of(group, lambda case: case.memory_parts)
        if not rows:
            continue
        first = rows[0]
        sizes = {case: sum(case.memory_parts.values()) / 2**20 for case in group if case.memory_parts}
        chart = Chart(name_of("memory-parts", first), "Memory by part", first.workload, first.setting,
                      message=messages.memory({case: Interval(size, size, size) for case, size in sizes.items()},
                                              "tensor memory"))
        axes = row_axes(chart, rows, 0.25)

        def piece(case, part):
            size = case.memory_parts[part]
            share = share_of(size, case.memory_parts.values())
            return size / 2**20, f"{part} {size / 2**20:,.1f} MiB, {share} of the tensors"

        stack(chart, axes, rows, [(part, LIGHT[role], [piece(case, part) for case in rows])
                                  for part, role in MEMORY.items()])
        axes.set_xlim(left=0)
        axes.set_xlabel("MiB of tensors, largest rank")
        chart.caption = (f"Tensors of 8 KiB or more at the peak of a step. Buffers: gathered parameters and other "
                         f"tensors kept between steps. {words.source(rows)}{note}")
        yield chart


def peak_of(case):
    """Returns the case's median peak memory over launches in MiB, with the least and the most."""
    peaks = [size / 2**20 for size in case.peaks]
    return Interval(statistics.median(peaks), min(peaks), max(peaks))


def memory(cases):
    for group in groups(cases):
        rows, note = rows_of(group, lambda case: case.peaks)
        if not rows:
            continue
        first = rows[0]
        chart = Chart(name_of("memory", first), "Peak memory", first.workload, first.setting,
                      message=messages.peak_memory({case: peak_of(case) for case in group if case.peaks}))
        axes = row_axes(chart, rows)
        for row, case in enumerate(rows):
            span = peak_of(case)
            bar = bar_with_interval(axes, row, span, strategy_colour(case))
            launches = len(case.peaks)
            spread = f" ({span.low:,.0f} to {span.high:,.0f})" if launches > 1 else ""
            chart.mark(bar, f"{case.series}, world {case.world}: {span.middle:,.0f} MiB{spread}, "
                            f"{count(launches, 'launch')}")
        axes.set_xlim(left=0)
        axes.set_xlabel("MiB of the largest rank")
        kind = "the GPU's allocator" if first.device == "cuda" else "resident set of the process; before report 1.4 including LibTorch's code"
        chart.caption = (f"Median over launches ({kind}). Bars: minimum and maximum. "
                         f"n = {words.span_of([len(case.peaks) for case in rows], 'launch')}. "
                         f"{words.origin({case.run for case in rows})}{note}")
        yield chart
