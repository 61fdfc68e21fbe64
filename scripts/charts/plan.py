"""Map of a plan (`dpbench plan -o json`): time of a step against memory of a device, a hollow point for each layout."""
from canvas import Chart, decades
from data import read_json
from palette import LIGHT

HIDDEN_BEYOND = 4  # layouts that need more than this multiple of the memory limit are not drawn


def seconds(value):
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def said(entry):
    memory = entry["memory_bytes"]["total"] / 1e9
    return f"{entry['layout']['text']}: {seconds(entry['step_s'])}, {memory:.3g} GB, predicted"


def plan(path):
    read = read_json(path)
    limit = read["memory_bytes"]
    shown = [entry for entry in read["layouts"] if not limit or entry["memory_bytes"]["total"] <= HIDDEN_BEYOND * limit]
    if not shown:
        return
    best = read["best"]
    fastest = f"{best[0]['layout']['strategy']} {best[0]['layout']['mesh']} is fastest" if best else "No layout fits"
    devices = "GPUs" if read["device"] == "cuda" else "CPU devices"
    chart = Chart("plan", "Plan", f"{read['model']}, {read['devices']} {devices}", "", message=fastest)
    axes = chart.axes()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for entry in shown:
        place = next((i for i, one in enumerate(best, 1) if one["layout"] == entry["layout"]), 0)
        ink = LIGHT["ink"] if place else LIGHT["muted"] if entry["fits"] else LIGHT["grid"]
        x, y = entry["memory_bytes"]["total"] / 1e9, entry["step_s"]
        (point,) = axes.plot([x], [y], "o", markersize=8 if place else 4, markerfacecolor="none", markeredgecolor=ink)
        chart.mark(point, said(entry))
        if place == 1:
            axes.annotate("1", (x, y), ha="center", va="center", fontsize=6.5)
    if limit:
        axes.axvline(limit / 1e9, color=LIGHT["ink"], linestyle="--", linewidth=0.8)
    decades(axes.xaxis, lambda value: f"{value:g}")
    decades(axes.yaxis, seconds)
    axes.set_xlabel("memory of a device, GB, log scale")
    axes.set_ylabel("time of a step, log scale")
    chart.caption = f"Predicted, nothing measured; speed of a device fitted to {read['speed']['fitted_to']}."
    if limit:
        chart.caption += f" The line is the memory of a device, {limit / 1e9:g} GB; light points do not fit."
    if len(shown) < read["examined"]:
        chart.caption += (f" {len(shown)} of {read['examined']} layouts are drawn; the others do not fit, or one of the "
                          "same mesh and strategy beats them in time and memory.")
    if best:
        chart.caption += " 1 is the fastest."
    yield chart
