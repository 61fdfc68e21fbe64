"""The page of a verdict: the JSON of `dpbench duel` or `dpbench compare`, with a row for each case."""
import collections
import dataclasses
import statistics

import page
import tables
import words
from data import Interval, Run, count, read_json
from markup import el, join

WORDS = {"failed": "FAILED", "inconclusive": "inconclusive", "passed": "passed"}  # words for the gate's result
SIDES = {"added": "new", "gone": "gone"}  # {key of the list of cases that one side lacks: their verdict}
STYLES = {"failed": "failed", "inconclusive": "disturbed", "passed": "passed"}


@dataclasses.dataclass
class Row:
    """A case of a duel or comparison. base, new, noise: (number, text). change: from base to new, in `unit`."""
    case: str
    verdict: str
    bad: bool = False
    note: str = ""
    rule: str = ""
    base: tuple = None
    new: tuple = None
    change: Interval = None
    unit: str = "%"
    n: str = ""
    noise: tuple = None

    @property
    def change_text(self):
        return f"{self.change.middle:+.1f} {self.unit}"

    @property
    def interval_text(self):
        span = self.change
        return f"{span.low:+.1f} to {span.high:+.1f}" if span and span.low < span.high else "-"


def interval_of(found, unit):
    """Returns the change with its interval. The bounds of a comparison are null if they are unknown."""
    middle = found[f"change_{unit}"]
    bounds = [found[f"ci95_{end}_{unit}"] for end in ("low", "high")]
    ends = [middle] + [bound for bound in bounds if bound is not None]
    return Interval(middle, min(ends), max(ends))


def of_duel(case):
    look, verdict = case["look"], case["verdict"]
    row = Row(case["id"], verdict or case["status"], note=case["reason"] or "")
    row.bad = verdict == "SLOWER" or case["status"] in ("failed", "wrong")
    if not look:
        return row
    blocks = [pair["base_ns"] for launch in case["launches"] for pair in launch["pairs"]]
    base = statistics.median(blocks) / case["steps_per_block"]
    row.change = interval_of(look, "percent")
    # Like the table of `dpbench duel`, show the base time changed by the median change over pairs. The median of the
    # new build's blocks might contradict that change.
    new = base * (1 + row.change.middle / 100)
    row.base, row.new = (base, words.duration(base)), (new, words.duration(new))
    row.n, row.noise = str(look["pairs"]), (look["noise_percent"], f"{look['noise_percent']:.1f} %")
    return row


def of_judgement(one):
    unit = "percent" if one.get("change_points") is None else "points"
    base, new = (None if one[side] is None else (one[side], f"{words.significant(one[side], 4)} {one['unit']}".strip())
                 for side in ("base", "new"))
    return Row(one["case"], one["verdict"], one["failed"], rule=one["rule"], base=base, new=new,
               note="the change is from the limit" if one["limit"] is not None else "", change=interval_of(one, unit),
               unit="%" if unit == "percent" else unit, n=f"{one['base_launches']} / {one['new_launches']}")


def unjudged(document, keys):
    """Returns the rows of the cases without figures. keys: {key of a list of cases: the verdict of these cases}. An
    entry of a list is the case's id, or an object with the keys `case` and `why`."""
    cases = [(key, one if isinstance(one, dict) else {"case": one, "why": ""}) for key in keys for one in document[key]]
    return [Row(one["case"], keys[key], key == "broken", one["why"]) for key, one in cases]


class Verdict:
    def __init__(self, document):
        self.gate = document["gate"]
        self.of_duel = document["schema"] == "dpbench.duel"
        self.kind = "duel" if self.of_duel else "comparison"
        if self.of_duel:
            self.run = Run(document | {"cases": []})  # describes machine and build; the cases are read below
            self.rule = document["rule"]
            self.builds = [(side, document[side]) for side in ("base", "new")]
            self.rows = [of_duel(case) for case in document["cases"]]
            self.rows += unjudged(document, SIDES)
        else:
            self.sides = f"{document['base']} → {document['new']}."
            self.differences = document["differences"]
            self.rows = [of_judgement(one) for one in document["judged"]]
            self.rows += unjudged(document, {"broken": "FAILED", "unmeasured": "unclear"} | SIDES)

    @property
    def summary(self):
        """Returns e.g. "1 slower, 3 same. Gate: FAILED"; verdicts that fail the gate come first."""
        counts = collections.Counter(row.verdict.lower() for row in sorted(self.rows, key=lambda row: not row.bad))
        return f"{', '.join(f'{number} {word}' for word, number in counts.items())}. Gate: {WORDS[self.gate]}"

    @property
    def source(self):
        return words.origin({self.run}) if self.of_duel else self.sides


def read(path):
    return Verdict(read_json(path))


def parts_of(cases):
    """Returns each case's label (the parts of its id that differ, else the strategy) and the parts that all share."""
    split = [case.split("/") for case in cases]
    shared = [part for part in split[0] if all(part in parts for parts in split)]
    labels = ["/".join(part for part in parts if part not in shared) or parts[0] for parts in split]
    return labels, " · ".join(shared)


def number(value):
    return el("td", "-", class_="none number", data_v="") if value is None else tables.cell(*value)


# {heading: function that makes a row's cell}. table() leaves out columns without a value, except change, 95 % and
# verdict.
CELLS = {"rule": lambda row: el("td", row.rule),
         "base": lambda row: number(row.base),
         "new": lambda row: number(row.new),
         "change": lambda row: number(row.change and (row.change.middle, row.change_text)),
         "95 %": lambda row: el("td", row.interval_text, class_="number"),
         "n": lambda row: el("td", row.n or "-", class_="number"),
         "noise": lambda row: number(row.noise),
         "verdict": lambda row: el("td", row.verdict, class_="failed" if row.bad else None),
         "note": lambda row: el("td", row.note, class_="note")}


def table(verdict):
    shown = [name for name in CELLS if name in ("change", "95 %", "verdict") or
             any(getattr(row, name) for row in verdict.rows)]
    titles = {"n": "pairs" if verdict.of_duel else "launches"}
    numbers = ("base", "new", "change", "95 %", "n", "noise")
    head = [el("th", el("button", titles.get(name, name), type="button"), scope="col",
               class_="number" if name in numbers else "") for name in ("case", *shown)]
    rows = [el("tr", el("th", row.case, scope="row", class_="long"), [CELLS[name](row) for name in shown])
            for row in verdict.rows]
    return tables.scrolling("Cases", el("table", el("thead", el("tr", head)), el("tbody", rows), class_="sortable"))


def details(verdict):
    """Returns the heading and the content of the section on the two sides: the builds of a duel, or the differences
    between the machines of a comparison."""
    if not verdict.of_duel:
        lines = [el("li", join(one["field"], ": ", one["base"], " → ", one["new"])) for one in verdict.differences]
        return "Differences", el("ul", lines) if lines else ""
    facts = [(side, " · ".join([build["worker"], f"LibTorch {build['torch']}", *build["plugins"]]))
             for side, build in verdict.builds]
    return "How it was measured", join(el("dl", [join(el("dt", key), el("dd", value)) for key, value in facts]),
                                       page.how([verdict.run]))


def html(verdict, charts, version):
    """Returns the page: the verdict, the table of cases, the charts, and the two sides."""
    about = f"{verdict.kind.capitalize()} of {count(len({row.case for row in verdict.rows}), 'case')}. {verdict.source}"
    top = join(el("p", verdict.summary, class_=f"verdict {STYLES[verdict.gate]}"), el("p", about, class_="lead"))
    lead = "Change of the new side against the base, with its interval. Click a heading to sort."
    heading, content = details(verdict)
    parts = [("Cases", lead, table(verdict)), *page.chart_parts(charts), (heading, "", content)]
    title = join("dpbench · ", verdict.kind, f" {verdict.run.id}" if verdict.of_duel else "")
    return page.assembled(title, top, parts, version)
