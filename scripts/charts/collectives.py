"""Charts of allreduce time by message size, from measurements of dpbench-micro (the collectives benchmark)."""
import statistics

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import messages
import words
from canvas import Chart, Looks
from data import Interval
from palette import role_of


def decades(axes):
    """Labels logarithmic axes with plain numbers, at most six per axis."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: words.size(size)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def origin(context):
    """Returns a caption part with machine, world and commit, as far as the measurement file has them."""
    cores = f"{context['num_cpus']} cores" if context.get("num_cpus") else "an unknown machine"
    words = [f"world {context['world']}"] if context.get("world") else []
    words += [f"commit {context['commit']}" if context.get("commit") else "commit not recorded"]
    return f"{context.get('machine') or cores}; {', '.join(words)}."


def collectives(sizes, context):
    if not sizes:
        return
    arms = list(dict.fromkeys(arm for size in sizes.values() for arm in size))
    looks = Looks({arm: role_of(arm) for arm in arms})
    repeated = max(len(times) for size in sizes.values() for times in size.values())
    for kind, message, ylabel, value, say in (
            ("bandwidth", messages.bandwidth, "GB/s (size / time)", lambda size, us: size / us / 1e3, "GB/s"),
            ("latency", messages.latency, "µs", lambda size, us: us, "µs")):
        chart = Chart(f"allreduce-{kind}", f"{kind.capitalize()} by size", "allreduce", "", message=message(sizes))
        axes = chart.axes()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for arm in arms:
            look = looks.line(arm)
            points = sorted((size, [value(size, us) for us in times[arm]]) for size, times in sizes.items() if arm in times)
            spans = [Interval(statistics.median(values), min(values), max(values)) for _, values in points]
            sayings = [f"{arm}, {size:,} bytes: {words.interval(span, ' ' + say)}" for (size, _), span in zip(points, spans)]
            chart.series(axes, arm, look, [size for size, _ in points], spans, sayings)
        decades(axes)
        axes.set_xlim(min(sizes) / 1.6, max(sizes) * 1.6)
        axes.set_xlabel("size of the tensor, log scale")
        axes.set_ylabel(f"{ylabel}, log scale")
        chart.legend()
        n = (f"Bars: minimum and maximum of n = {repeated} repetitions." if repeated > 1 else
             "n = 1 repetition (its median), so no error bars; use --benchmark_repetitions for them.")
        chart.caption = f"{n} {origin(context)}"
        yield chart
