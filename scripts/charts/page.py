"""The page: one file, nothing fetched. Everything stands in it as HTML; the script only sorts, filters and shows values."""
import base64
import hashlib
import pathlib

import palette
import tables
import words
from conformance import conformance
from data import count
from markup import Html, el, join

PARTS = pathlib.Path(__file__).parent / "page"
SAYS = {
    "Throughput": "Rows of all ranks together a second.",
    "Efficiency": "Strong: the same global batch shared by more replicas. Weak: as many rows for every replica.",
    "Strategies side by side": "The same workload, rows and machine; only the strategy differs.",
    "Parts of a step": "Where the time of a step goes.",
    "Spread of the samples": "No sample is dropped; those far out are marked.",
    "Peak memory": "Of the largest rank.",
    "Training": "The loss of every step and the accuracy after every epoch.",
    "History": "The same cases, run after run.",
    "Allreduce by size": "What the collectives underneath cost.",
}


def slug(title):
    return title.lower().replace(" ", "-")


def figure(chart, index):
    values = el("details", el("summary", "Values"), el("ul", [el("li", mark) for mark in chart.marks.values()])) if chart.marks else None
    return el("figure", Html(chart.drawing),
              el("figcaption", el("strong", chart.title), " · ", chart.caption), values, class_="card", id=f"figure-{index}")


def chart_sections(charts):
    sections = {}
    for index, chart in enumerate(charts):
        sections.setdefault(chart.section, []).append(figure(chart, index))
    return [(title, el("section", el("h2", title, id=slug(title)), el("p", SAYS.get(title, ""), class_="lead"),
                       el("div", figures, class_="figures"))) for title, figures in sections.items()]


def counts(case):
    """Cases that were only checked are counted by their checks, unless they did not come so far."""
    return not case.run.only_checks or case.status not in ("ok", "wrong")


def tiles(runs):
    cases = [case for run in runs for case in run.cases]
    checks = [check for case in cases for check in case.checks]
    counted = [(status, sum(case.status == status for case in cases if counts(case)), "case") for status in tables.STATUSES]
    counted += [(status, sum(check["status"] == status for check in checks), "check") for status in ("passed", "failed")]
    shown = [el("li", el("b", f"{number:,}"), f" {word if number == 1 else word + 's'} {tables.SAID.get(status, status)}",
                class_=f"tile {status}")
             for status, number, word in counted if number]
    return el("ul", shown, class_="tiles")


def runs_table(runs):
    rows = []
    for run in runs:
        load = (run.report["env"].get("load") or {}).get("minutes_1")
        versions = run.report["env"].get("versions") or {}
        rows.append(el("tr", el("th", run.id, scope="row", class_="long"), el("td", run.status, class_=run.status), el("td", run.time or "-"), el("td", run.commit),
                       el("td", run.machine), el("td", versions.get("torch") or "-"),
                       el("td", "-" if load is None else f"{load:g}"), el("td", count(len(run.cases), "case"))))
    head = ("run", "status", "time", "commit", "machine", "LibTorch", "load", "cases")
    return tables.scrolling("Runs", el("table", el("thead", el("tr", [el("th", word, scope="col") for word in head])), el("tbody", rows)))


def called(run):
    argv = run.report["tool"].get("argv") or []
    return join("dpbench ", " ".join(argv)) if argv and argv[0] != "dpbench" else join(" ".join(argv))


def page(runs, charts, version):
    sections = [("Runs", el("section", el("h2", "Runs", id="runs"), runs_table(runs)))]
    sections += [(title, part) for title, part in (("Problems", tables.problems(runs)),) if part]
    sections += chart_sections(charts)
    sections += [(title, part) for title, part in (("Cases", tables.cases(runs)), ("Conformance", conformance(runs)),
                                                   ("Remarks", tables.remarks(runs))) if part]
    sections.append(("How it was measured", how(runs)))
    style = palette.style_sheet() + (PARTS / "style.css").read_text(encoding="utf-8")
    script = (PARTS / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    newest = max(runs, key=lambda run: run.id)
    values = {
        "TITLE": join("dpbench · ", newest.id if len(runs) == 1 else count(len(runs), "run")),
        "POLICY": Html(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"),
        "STYLE": Html(style), "SCRIPT": Html(script),
        "SUMMARY": join(el("p", words.origin(set(runs)), class_="lead"), tiles(runs)),
        "LINKS": join([el("li", el("a", title, href=f"#{slug(title)}")) for title, _ in sections]),
        "MAIN": join([part for _, part in sections]),
        "VERSION": join(version),
    }
    text = (PARTS / "template.html").read_text(encoding="utf-8")
    pieces = text.split("@@")  # @@NAME@@: every second piece is a name, so what is put in is never looked at again
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def how(runs):
    lists = []
    for run in runs:
        env = run.report["env"]
        facts = [("called", called(run)), ("fingerprint", run.fingerprint), ("CPU", (env.get("cpu") or {}).get("model")), ("system", (env.get("os") or {}).get("distribution")),
                 ("kernel", (env.get("os") or {}).get("kernel")), ("compiler", run.report["tool"].get("compiler")),
                 ("dpbench", run.report["tool"].get("commit")),
                 ("variables", " ".join(f"{key}={value}" for key, value in (env.get("variables") or {}).items()))]
        lists.append(el("details", el("summary", run.id),
                        el("dl", [join(el("dt", key), el("dd", value)) for key, value in facts if value])))
    glossary = (("step time", "the median time of a training step, the slowest rank's"),
                ("±95 %", "its interval: over fresh launches of the processes where there are three or more, else over samples"),
                ("speed-up", "rows a second against the single device's; strong scaling: at the same global batch, weak: at the same rows per device"),
                ("efficiency", "speed-up / world"), ("comm.", "the share of a step spent in communication that nothing hides"),
                ("noise", "1.4826 × the median absolute deviation / the median of the samples"),
                ("wrong", "a check failed: the case gets no speed"))
    return el("section", el("h2", "How it was measured", id="how-it-was-measured"), lists,
              el("dl", [join(el("dt", word), el("dd", meaning)) for word, meaning in glossary]))
