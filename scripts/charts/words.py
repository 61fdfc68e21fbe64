"""Formats numbers with their units, and builds the captions of charts."""
from data import count, groups

SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


def time_unit(ns):
    """Returns (size in ns, name) of the unit that gives this time one to three digits before the point."""
    return next(((size, name) for size, name in SCALES if ns >= size), SCALES[-1])


def significant(value, digits=3):
    """Rounds to significant digits: 1234.5 -> 1,230; 0.012345 -> 0.0123."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text or abs(value) >= 1000:
        return f"{float(text):,.0f}" if abs(value) >= 1 else text
    return text


def duration(ns):
    size, name = time_unit(ns)
    return f"{significant(ns / size, 4)} {name}"


def interval(span, unit="", factor=1, digits=3):
    """Returns e.g. "12.3 ms (12.1 to 12.9)"; without the bounds if they are equal."""
    middle, low, high = (significant(value * factor, digits) for value in (span.middle, span.low, span.high))
    spread = f" ({low} to {high})" if low != high else ""
    return f"{middle}{unit}{spread}"


def span_of(numbers, word):
    low, high = min(numbers), max(numbers)
    return count(low, word) if low == high else f"{low:,} to {count(high, word)}"


def from_to(numbers, digits=2):
    """Returns the range of numbers, e.g. "4 to 64"; one number if the ends are equal after rounding."""
    low, high = (significant(number, digits) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


def listed(names):
    """Returns e.g. "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def short(text, limit=30):
    text = " ".join(str(text).split())
    return text if len(text) <= limit else text[:limit - 1] + "…"


MOST_NAMES = 3


def named(cases):
    """Returns e.g. "ddp × 2 and dp × 4", or "ddp × 2, ddp × 4, dp × 2 and 5 more"."""
    names = [f"{short(case.series, 26)} × {case.world}" for case in cases]
    return listed(names if len(names) <= MOST_NAMES else names[:MOST_NAMES] + [f"{len(names) - MOST_NAMES} more"])


def note_absences(cases):
    """Gives each case the caption sentences on its group's cases that are outdated or not drawn."""
    for group in groups(cases):
        disturbed = [case for case in group if case.status == "disturbed"]
        outdated = [case for case in group if case.outdated]
        text = f" {len(disturbed)} disturbed, not drawn: {named(disturbed)}." if disturbed else ""
        text += f" From an older run, as the newest has no figure: {named(outdated)}." if outdated else ""
        for case in group:
            case.absences = text


def size(number):
    """Returns a number of bytes with its unit, e.g. "4 kB"."""
    unit, name = next((step for step in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if number >= step[0]), (1, "B"))
    return f"{number / unit:g} {name}"


def bars(cases):
    """Returns a caption sentence that explains the error bars."""
    levels = {case.summary["interval"] for case in cases if not case.projected}
    if not levels:
        return "Bars: 95 % interval of the fit."
    if levels == {"launches"}:
        return "Bars: 95 % interval over launches."
    if levels <= {"samples", "none"}:
        return "Bars: 95 % interval over blocks of few launches (narrower than the variation between launches)."
    return "Bars: 95 % interval, over launches if there are three or more, else over blocks."


def source(cases):
    """Returns a caption sentence with the cases' number of timed blocks of steps, number of launches (starts of the
    processes), machine and commit."""
    measured = [case for case in cases if not case.projected]
    if not measured:
        return f"Projected, nothing measured. {origin({case.run for case in cases})}"
    n = span_of([case.summary["n"] for case in measured], "sample")
    launches = span_of([case.summary["launches"] for case in measured], "launch")
    return f"n = {n} per point, from {launches}. {origin({case.run for case in cases})}"


def origin(runs):
    machines = " / ".join(dict.fromkeys(run.machine for run in sorted(runs, key=lambda run: run.id)))
    commits = list(dict.fromkeys(run.commit for run in sorted(runs, key=lambda run: run.id)))
    shown = ", ".join(commits if len(commits) <= 4 else commits[:2] + ["…"] + commits[-1:])
    return f"{machines}; commit{'s' if len(commits) > 1 else ''} {shown}."
