"""Charts of loss by step and accuracy by training time, from the cases of `dpbench train`."""
import messages
import words
from canvas import Chart, Looks
from data import count, groups
from matplotlib.ticker import MaxNLocator
from palette import role_of

MOST_POINTS, MOST_LINES = 300, 8


def losses(training):
    """Returns (step, loss) pairs of all steps, including those before a resume from a checkpoint."""
    return list(enumerate(training["loss_curve"], 1))


def accuracies(training):
    """Returns (seconds spent in steps, accuracy) pairs. The first epochs are missing if they were not evaluated."""
    done, found = len(training["epoch_losses"]), training["accuracy"]
    return [(training["seconds"] * (done - len(found) + number) / done, value) for number, value in enumerate(found, 1)]


KINDS = ((losses, "loss", "mean loss of a step", "step"),
         (accuracies, "accuracy", "accuracy on the test rows", "seconds of training"))


def training(cases):
    for group in groups([case for case in cases if isinstance(case.raw.get("training"), dict)]):
        for points_of, title, ylabel, xlabel in KINDS:
            able = [(case, points) for case in group if len(points := points_of(case.raw["training"])) > 1]
            for start in range(0, len(able), MOST_LINES):
                yield chart_of(able[start:start + MOST_LINES], title, ylabel, xlabel)


def thinned(points):
    """Returns at most about MOST_POINTS evenly spaced points, always including the last point."""
    stride = -(-len(points) // MOST_POINTS)
    return points[:-1:stride] + points[-1:]


def reached(name, training):
    """Returns a caption sentence on when the target accuracy was reached; empty without a target."""
    wanted, seconds = training["target_accuracy"], training["time_to_accuracy_s"]
    if wanted is None:
        return ""
    return f" {name}: {words.significant(wanted)} " + (f"reached after {words.duration(seconds * 1e9)}." if seconds is not None else "not reached.")


def name_of(case):
    return f"{case.series} × {case.world}"


def message_of(shown, title):
    if title == "accuracy":
        return messages.accuracy([case.raw["training"] for case, _ in shown])
    return messages.loss([[value for _, value in points if value is not None] for _, points in shown])


def chart_of(shown, title, ylabel, xlabel):
    first = shown[0][0]
    chart = Chart(f"{title}-{first.workload}-{first.device}-{first.scaling}", f"Training, {title}", first.workload,
                  first.setting, message=message_of(shown, title))
    axes = chart.axes()
    ends = ""
    looks = Looks({name_of(case): role_of(case.strategy, case.is_baseline) for case, _ in shown})
    for place, (case, points) in enumerate(shown):
        name = name_of(case)
        look = looks.line(name)
        points = [(x, value) for x, value in points if value is not None]
        drawn = thinned(points)
        (line,) = axes.plot(*zip(*drawn), color=look["color"], linestyle=look["linestyle"], label=name,
                            # Each curve is thinner than the previous one, so that identical curves stay visible.
                            linewidth=max(1.0, 3.2 - 0.8 * place),
                            marker=look["marker"] if len(drawn) < 30 else None)
        whole = count(points[-1][0], "step") if title == "loss" else words.duration(points[-1][0] * 1e9)
        chart.mark(line, f"{name}: {title} {words.significant(points[0][1], 4)} at first, {words.significant(points[-1][1], 4)} after {whole}")
        chart.belongs(name, line)
        ends += reached(name, case.raw["training"]) if title == "accuracy" else ""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if title == "loss":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    chart.legend()
    most = max(len(points) for _, points in shown)
    thin = f" At most {MOST_POINTS} of {most:,} steps drawn." if most > MOST_POINTS else ""
    chart.caption = f"n = 1 training a line, so no error bars.{thin}{ends} {words.origin({case.run for case, _ in shown})}"
    return chart
