"""Loss and accuracy while training, from the cases that hold a training (dpbench train)."""
import words
from canvas import Chart
from data import groups

KINDS = (("loss_curve", "loss", "mean loss of a step"), ("accuracy", "accuracy", "accuracy on the test rows"))
MOST_POINTS, MOST_LINES = 300, 8


def training(cases, looks):
    for group in groups([case for case in cases if isinstance(case.raw.get("training"), dict)]):
        for key, title, ylabel in KINDS:
            able = [case for case in group if len(case.raw["training"].get(key) or []) > 1]
            for start in range(0, len(able), MOST_LINES):
                yield chart_of(able[start:start + MOST_LINES], key, title, ylabel, looks)


def thinned(points):
    """So many points, the last one among them."""
    stride = -(-len(points) // MOST_POINTS)
    return points[:-1:stride] + points[-1:]


def chart_of(shown, key, title, ylabel, looks):
    first = shown[0]
    chart = Chart(f"{title}-{first.workload}-{first.device}-{first.scaling}", f"Training, {title}", first.workload, first.setting)
    axes = chart.axes()
    for place, case in enumerate(shown):
        training = case.raw["training"]
        begin = 1 + (training.get("resumed_at") or 0 if key == "loss_curve" else 0)
        values = [(index, value) for index, value in enumerate(training[key], begin) if value is not None]
        name = f"{case.series} × {case.world}"
        look = looks.line(name, case.is_baseline)
        points = thinned(values)
        (line,) = axes.plot(*zip(*points), color=look["color"], linestyle=look["linestyle"], label=name,
                            linewidth=max(1.0, 3.2 - 0.8 * place),  # curves that agree lie on each other, all seen
                            marker=look["marker"] if len(points) < 30 else None)
        chart.mark(line, f"{name}: {title} {words.significant(values[0][1], 4)} at first, {words.significant(values[-1][1], 4)} after "
                         f"{values[-1][0]:,} {'steps' if key == 'loss_curve' else 'epochs'}")
    axes.set_xlabel("step" if key == "loss_curve" else "epoch")
    axes.set_ylabel(ylabel)
    chart.legend()
    most = max(len(case.raw["training"][key]) for case in shown)
    thin = f" At most {MOST_POINTS} of {most:,} steps drawn." if most > MOST_POINTS else ""
    chart.caption = f"n = 1 training a line, so no error bars.{thin} {words.origin({case.run for case in shown})}"
    return chart
