"""Allreduce by size, from what tests/micro measured."""
import statistics

import words
from canvas import Chart
from palette import LIGHT


def collectives(sizes, context, looks):
    if not sizes:
        return
    arms = list(dict.fromkeys(arm for size in sizes.values() for arm in size))
    repeated = max(len(times) for size in sizes.values() for times in size.values())
    for kind, ylabel, value, say in (
            ("bandwidth", "GB/s (bytes of the tensor / time)", lambda size, us: size / us / 1e3, "GB/s"),
            ("latency", "µs", lambda size, us: us, "µs")):
        chart = Chart(f"allreduce-{kind}", "Allreduce by size", f"allreduce, {kind}", "")
        axes = chart.axes()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for arm in arms:
            look = looks.line(arm)
            points = sorted((size, [value(size, us) for us in times[arm]]) for size, times in sizes.items() if arm in times)
            middles = [statistics.median(values) for _, values in points]
            axes.plot([size for size, _ in points], middles, **{**look, "marker": None})
            axes.errorbar([size for size, _ in points], middles, fmt="none", ecolor=look["color"],
                          yerr=[[m - min(v) for m, (_, v) in zip(middles, points)], [max(v) - m for m, (_, v) in zip(middles, points)]])
            for (size, values), middle in zip(points, middles):
                (point,) = axes.plot([size], [middle], linestyle="none", color=look["color"], marker=look["marker"])
                chart.mark(point, f"{arm}, {size:,} bytes: {words.significant(middle)} {say}")
            axes.plot([], [], **look, label=arm)
        axes.set_xlabel("bytes")
        axes.set_ylabel(ylabel)
        chart.legend()
        n = (f"Bars: least and most of n = {repeated} repetitions." if repeated > 1 else
             "n = 1 repetition (its median), so no error bars: --benchmark_repetitions gives them.")
        where = ", ".join(str(context[key]) for key in ("host_name", "date") if context.get(key))
        cores = f"{context['num_cpus']} cores" if context.get("num_cpus") else "unknown machine"
        chart.caption = f"{n} {cores}{'; ' + where if where else ''}; commit not recorded by the micro-benchmark."
        yield chart
