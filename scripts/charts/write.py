"""Draws the charts and writes the requested files atomically."""
import itertools
import os
import pathlib
import re
import tempfile

import cases as of_cases
import changes
import collectives
import data
import history
import models
import page
import plan
import scaling
import svg
import training
import tuning
import verdict
import words


MOST_SETTINGS = 12  # more settings would make a page unreadable and slow to open


def charts_of(runs, asked, most=None, planned=None):
    """Returns all charts for which the runs have data, for at most `most` settings. `asked`: path of dpbench-micro's
    JSON (the collectives benchmark), or None. `planned`: path of `dpbench plan -o json`, or None."""
    chosen = data.newest(runs)
    data.label(chosen)
    for run in runs:
        data.label(run.cases)
    kept = set(settings(chosen)[:most])
    chosen = [case for case in chosen if case.group in kept]
    words.note_absences(chosen)
    known = [case for case in chosen if case.measured]  # cases with a figure, including projected cases
    measured = [case for case in known if not case.projected]
    drawn = [scaling.throughput(known), scaling.efficiency(known), scaling.side_by_side(measured),
             of_cases.parts(measured), of_cases.distribution(measured), of_cases.memory(measured),
             of_cases.memory_parts(measured), training.training(chosen), tuning.tuning(runs),
             history.history(runs, kept)]
    if asked:
        drawn.append(collectives.collectives(*data.read_collectives(asked)))
    if planned:
        drawn.append(plan.plan(planned))
    return named_apart(itertools.chain(*drawn))


def settings(cases):
    """Returns the distinct settings of the cases that have charts."""
    return list(dict.fromkeys(case.group for case in cases if case.measured or "training" in case.raw))


def named_apart(charts):
    """Yields the charts with safe and unique file names."""
    taken = {}
    for chart in charts:
        name = re.sub("[^A-Za-z0-9._-]+", "-", chart.name)[:80].strip("-.") or "chart"
        taken[name] = taken.get(name, 0) + 1
        chart.name = name if taken[name] == 1 else f"{name}-{taken[name]}"
        yield chart


def replace(path, content):
    """Replaces a file atomically: writes the bytes to a temporary file and renames it to `path`."""
    path = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


def put_on_page(chart, number):
    chart.drawing = svg.for_page(chart.svg(), f"c{number}", chart.attributes, chart.description)


def save(chart, folder):
    """Writes a chart's files to `folder`, if there is one, and frees the figure's memory."""
    if folder:
        chart.sign()
        replace(pathlib.Path(folder) / f"{chart.name}.svg", chart.svg().encode())
        replace(pathlib.Path(folder) / f"{chart.name}.png", chart.png())
    chart.figure = chart.key = None


def places(options):
    return " and ".join([options.html] * bool(options.html) + [f"{options.charts}/"] * bool(options.charts))


def write_verdict(options):
    """Writes the page and the charts of a duel or a comparison. Returns a summary line."""
    shown = verdict.read(options.verdict)
    charts = list(named_apart(changes.changes(shown)))
    for number, chart in enumerate(charts, 1):
        put_on_page(chart, number)
        save(chart, options.charts)
    if options.html:
        replace(options.html, verdict.html(shown, charts, options.version).encode())
    return f"{data.count(len(charts), 'chart')} of the {shown.kind} in {places(options)}"


def write(options):
    """Writes the requested page and charts. Returns a summary line."""
    if options.verdict:
        return write_verdict(options)
    runs = data.read_runs(options.runs, options.answers)
    if options.projection:
        data.add_projection(runs, options.projection)
    number = len(settings(case for run in runs for case in run.cases))
    note = f"{MOST_SETTINGS} of {number} settings are drawn on the page; --charts DIR draws all." if number > MOST_SETTINGS else ""
    drawn, shown, subjects = 0, [], {}
    for chart in charts_of(runs, options.collectives, None if options.charts else MOST_SETTINGS, options.plan):
        drawn += 1
        if subjects.setdefault((chart.subject, chart.setting), len(subjects)) < MOST_SETTINGS or not chart.setting:
            put_on_page(chart, drawn)
            shown.append(chart)
        save(chart, options.charts)
    if options.html:
        replace(options.html, page.page(runs, shown, options.version, note, models.models(runs, options.program)).encode())
    summary = f"{data.count(drawn, 'chart')} of {data.count(len(runs), 'run')} in {places(options)}"
    return f"{summary}; {note}" if note and options.html else summary
