"""Charts of a verdict (`dpbench duel`, `dpbench compare`), one per rule: the change of each case with its interval."""
import messages
import words
from canvas import Chart
from cases import MOST_ROWS, labelled_axes
from palette import LIGHT
from verdict import parts_of


def changes(verdict):
    judged = [row for row in verdict.rows if row.change]
    for rule in dict.fromkeys(row.rule for row in judged):
        yield change(verdict, rule, [row for row in judged if row.rule == rule])


def change(verdict, rule, rows):
    labels, setting = parts_of([row.case for row in rows])
    subject = rule or "step time"
    chart = Chart(f"change-{subject}", "Change", subject, setting, message=messages.changes(rows, labels))
    shown = sorted(rows, key=lambda row: -row.change.middle)[:MOST_ROWS]
    names = dict(zip(map(id, rows), labels))
    axes = labelled_axes(chart, [words.short(names[id(row)], 34) for row in shown])
    if verdict.of_duel:
        least = verdict.rule["least_percent"]
        axes.axvspan(-least, least, color=LIGHT["grid"], zorder=0)
    axes.axvline(0, color=LIGHT["muted"], linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)
    for place, row in enumerate(shown):
        span = row.change
        widths = [[span.middle - span.low], [span.high - span.middle]]
        (point, _, _) = axes.errorbar([span.middle], [place], xerr=widths, fmt="o", zorder=3, elinewidth=1.2,
                                      color=LIGHT["bad" if row.bad else "ink"])
        chart.mark(point, f"{row.case}: {row.change_text} ({row.interval_text}), {row.verdict}")
    axes.set_xlabel(f"change of {subject.split(':')[0]}, {rows[0].unit}")
    more = f" The first {len(shown)} of {len(rows)} cases; the table has all." if len(shown) < len(rows) else ""
    chart.caption = f"{how(verdict)}{more} {verdict.source}"
    return chart


def how(verdict):
    if not verdict.of_duel:
        return "New against base, from the launches of both runs; bar: 95 % interval."
    return (f"Median change of the pairs, new against base; bar: its 95 % interval. Grey: changes below "
            f"{verdict.rule['least_percent']:g} % are never slower or faster.")
