"""Prints the bars of all charts of hand-made runs, as JSON: for each bar its chart, where it starts and ends, the
ends of the other bars in its row, and the low end and the scale of its axis. Needs matplotlib."""
import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "scripts/charts"), str(ROOT / "tests/support")]

import data
import sample_runs
import write
from matplotlib.container import BarContainer

REPORTS = (("usual",), ("tuned",), ("scaled", (1, 8, 64)))


def bars_of(chart):
    rows = collections.defaultdict(list)
    for axes in chart.figure.axes:
        for container in axes.containers:
            if not isinstance(container, BarContainer):
                continue
            across = container.orientation == "horizontal"
            for bar in container:
                start, size = (bar.get_x(), bar.get_width()) if across else (bar.get_y(), bar.get_height())
                low, scale = (axes.get_xlim()[0], axes.get_xscale()) if across else (axes.get_ylim()[0], axes.get_yscale())
                rows[id(axes), bar.get_y() if across else bar.get_x()].append(
                    {"chart": chart.name, "start": float(start), "end": float(start + size), "low": float(low), "scale": scale})
    for row in rows.values():
        for number, bar in enumerate(row):
            yield bar | {"ends": [other["end"] for index, other in enumerate(row) if index != number]}


def charts():
    for name, *arguments in REPORTS:
        yield from write.charts_of([data.Run(data.cleaned(getattr(sample_runs, name)(*arguments)))], None)


print(json.dumps([bar for chart in charts() for bar in bars_of(chart)]))
