"""Draws the charts and writes what was asked for, each file whole or not at all."""
import itertools
import os
import pathlib
import re
import tempfile

import canvas
import cases as of_cases
import collectives
import data
import history
import page
import scaling
import svg
import training


def charts_of(runs, asked):
    """All charts that the runs have data for; asked: the file of collectives."""
    chosen = data.newest(runs)
    data.label(chosen)
    for run in runs:
        data.label(run.cases)
    looks = canvas.Looks()
    known = [case for case in chosen if case.measured]  # or worked out
    measured = [case for case in known if not case.projected]
    drawn = [scaling.throughput(known, looks), scaling.efficiency(known, looks), scaling.side_by_side(measured, looks),
             of_cases.parts(measured, looks), of_cases.distribution(measured, looks), of_cases.memory(measured, looks),
             training.training(chosen, canvas.Looks()), history.history(runs, looks)]
    if asked:
        drawn.append(collectives.collectives(*data.read_collectives(asked), canvas.Looks()))
    return named_apart(itertools.chain(*drawn))


def named_apart(charts):
    """File names that are safe and differ."""
    taken = {}
    for chart in charts:
        name = re.sub("[^A-Za-z0-9._-]+", "-", chart.name)[:80].strip("-.") or "chart"
        taken[name] = taken.get(name, 0) + 1
        chart.name = name if taken[name] == 1 else f"{name}-{taken[name]}"
        yield chart


def replace(path, content):
    """content: bytes. Written beside the old file, which it then replaces."""
    path = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


def write(options):
    """What was written, in words."""
    runs = data.read_runs(options.runs)
    shown = []
    for index, chart in enumerate(charts_of(runs, options.collectives)):
        chart.drawing = svg.for_page(chart.svg(), f"c{index}", chart.marks, chart.description)
        if options.charts:
            chart.sign()
            replace(pathlib.Path(options.charts) / f"{chart.name}.svg", chart.svg().encode())
            replace(pathlib.Path(options.charts) / f"{chart.name}.png", chart.png())
        chart.figure = None  # its memory
        shown.append(chart)
    if options.html:
        replace(options.html, page.page(runs, shown, options.version).encode())
    places = [options.html] * bool(options.html) + [f"{options.charts}/"] * bool(options.charts)
    return f"{data.count(len(shown), 'chart')} of {data.count(len(runs), 'run')} in {' and '.join(places)}"
