"""The report page: one self-contained HTML file, which is complete without its script."""
import base64
import collections
import hashlib
import pathlib

import palette
import tables
import words
from conformance import conformance
from data import count, of
from markup import Html, el, join

PARTS = pathlib.Path(__file__).parent / "page"


def figure(chart, index):
    values = el("details", el("summary", "Values"), el("ul", [el("li", mark) for mark in chart.marks.values()]))
    kind = join(el("strong", chart.kind), " · ")
    return el("figure", el("h3", chart.message), el("div", Html(chart.drawing), class_="plot"),
              el("figcaption", kind, chart.caption),
              values if chart.marks else None, class_="card", id=f"figure-{index}")


def chart_parts(charts):
    """Returns (heading, introduction, figures) for each group of charts with the same subject and setting. The heading
    is the subject, usually a workload; the introduction is the setting."""
    parts = {}
    for index, chart in enumerate(charts):
        parts.setdefault((chart.subject, chart.setting), []).append(figure(chart, index))
    alike = collections.Counter(subject for subject, _ in parts)
    return [(subject if alike[subject] == 1 else f"{subject} ({setting.split(' · ')[1]})", setting,
             el("div", figures, class_="figures")) for (subject, setting), figures in parts.items()]


def counts(case):
    """True if the page's tiles (number of cases by status) count this case. Cases of `dpbench check` that reached a
    verdict are counted by their checks instead."""
    return not case.run.only_checks or case.status not in ("ok", "wrong")


def tiles(runs):
    cases = [case for run in runs for case in run.cases]
    checks = [check for case in cases for check in case.checks]
    counted = [(status, sum(case.status == status for case in cases if counts(case)), "case") for status in tables.STATUSES]
    counted += [(status, sum(check["status"] == status for check in checks), "check") for status in ("passed", "failed")]
    shown = [el("li", el("b", f"{number:,}"), f" {word if number == 1 else word + 's'} {status}",
                class_=f"tile {status}")
             for status, number, word in counted if number]
    return el("ul", shown, class_="tiles")


def runs_table(runs):
    rows = []
    for run in runs:
        load = (run.report["env"].get("load") or {}).get("minutes_1")
        versions = run.report["env"].get("versions") or {}
        rest = (run.time or "-", run.commit, run.machine, versions.get("torch") or "-", "-" if load is None else f"{load:g}",
                count(len(run.cases), "case"))
        rows.append(el("tr", el("th", run.id, scope="row", class_="long"), el("td", run.status, class_=run.status),
                       [el("td", word) for word in rest]))
    head = ("run", "status", "time", "commit", "machine", "LibTorch", "load", "cases")
    head = el("thead", el("tr", [el("th", word, scope="col") for word in head]))
    return tables.scrolling("Runs", el("table", head, el("tbody", rows)))


def sentences(entry):
    return el("ul", [el("li", sentence["text"]) for sentence in entry["sentences"]])


def answers(runs):
    """Returns HTML on which strategy is fastest and why, for each run that stores this answer: per group of comparable
    cases, largest world first, then for the whole run. Groups with fewer than two strategies to compare are left out.
    """
    parts = []
    for run in runs:
        answer = run.report.get("answer")
        if not answer:
            continue
        groups = [group for group in answer["groups"] if len(group["choices"]) > 1]
        shown = [(f"{group['setting']} · world {group['world']}", group) for group in sorted(groups, key=lambda group: -group["world"])]
        of_run = [sentence for sentence in answer["sentences"] if sentence["rule"] != "busy"]  # the page's head says it
        if of_run:
            shown.append(("The whole run", {"sentences": of_run}))
        if len(runs) > 1 and shown:
            parts.append(el("p", el("strong", run.id)))
        parts += [el("div", el("h3", title), sentences(entry)) for title, entry in shown]
    return join(parts)


def called(run):
    argv = run.report["tool"].get("argv") or []
    return join("dpbench ", " ".join(argv)) if argv and argv[0] != "dpbench" else join(" ".join(argv))


def page(runs, charts, version, note="", models=None):
    """Returns the page of runs. models: HTML of the tables of the models' parameters."""
    parts = [("The answer", "", answers(runs)), ("Runs", "", runs_table(runs)), ("Problems", "", tables.problems(runs)), *chart_parts(charts),
             ("Cases", "One row per case; n: blocks / launches. Click a heading to sort.", tables.cases(runs)),
             ("Conformance", "Cells count the worlds, backends and types in which a check was judged: ✓ passed, ✗ failed (open for the "
                             "evidence), – skipped.", conformance(runs)),
             ("Collectives of a step", "One rank's calls and bytes per step, beside those of the strategy's own formula.",
              tables.ledger(runs)),
             ("Memory of tensors", "The largest rank at the peak of a step, beside the closed formulas of the model and its layout.",
              tables.memory(runs)),
             ("Parameters of the models", "Name, shape, the blocks that use it (a tied parameter: several) and its placement, as this build "
                                          "of dpbench lists them: dpbench list WORKLOAD --parameters.", models),
             ("Remarks", "", tables.remarks(runs)), ("How it was measured", "", how(runs))]
    newest = max(runs, key=lambda run: run.id)
    summary = join([el("p", run.disturbance, class_="amber") for run in runs if run.disturbance],
                   el("p", words.origin(set(runs)), class_="lead"), tiles(runs), el("p", note, class_="lead") if note else None)
    return assembled(join("dpbench · ", newest.id if len(runs) == 1 else count(len(runs), "run")), summary, parts, version)


def assembled(title, summary, parts, version):
    """Returns the HTML of a page. parts: (heading, introduction, content) of each section; one without content is left
    out."""
    parts = [part for part in parts if part[2]]
    sections = [el("section", el("h2", heading, id=f"part-{number}"), el("p", lead, class_="lead") if lead else None, content)
                for number, (heading, lead, content) in enumerate(parts)]
    style = palette.style_sheet() + (PARTS / "style.css").read_text(encoding="utf-8")
    script = (PARTS / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values = {
        "TITLE": title,
        "POLICY": Html(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"),
        "STYLE": Html(style), "SCRIPT": Html(script),
        "SUMMARY": summary,
        "LINKS": join([el("li", el("a", heading, href=f"#part-{number}")) for number, (heading, *_) in enumerate(parts)]),
        "MAIN": join(sections),
        "VERSION": join(version),
    }
    text = (PARTS / "template.html").read_text(encoding="utf-8")
    # The template marks names as @@NAME@@, so every second piece is a name; inserted text is not expanded again.
    pieces = text.split("@@")
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def how(runs):
    lists = []
    for run in runs:
        env = run.report["env"]
        tags = of(run.report, "config", "tags") or {}
        facts = [("called", called(run)), ("tags", " · ".join(f"{key}={value}" for key, value in tags.items()) if isinstance(tags, dict) else ""), ("fingerprint", run.fingerprint), ("CPU", of(env, "cpu", "model")),
                 ("system", of(env, "os", "distribution")), ("kernel", of(env, "os", "kernel")),
                 ("compiler", run.report["tool"].get("compiler")),
                 ("dpbench", run.report["tool"].get("commit")),
                 ("variables", " ".join(f"{key}={value}" for key, value in (env.get("variables") or {}).items()))]
        lists.append(el("details", el("summary", run.id),
                        el("dl", [join(el("dt", key), el("dd", value)) for key, value in facts if value])))
    glossary = (("step time", "the median time of a training step on the slowest rank"),
                ("±95 %", "its confidence interval: over launches if there are three or more, else over blocks"),
                ("speed-up", "samples per second relative to the single device, measured in pairs of neighbouring blocks; strong scaling: at the same global batch, weak: at the same "
                             "samples per device"),
                ("efficiency", "speed-up / world; none for replicas that share cores; !: above 100 % by more than its interval"),
                ("comm.", "the share of a step spent in exposed communication"),
                ("noise", "1.4826 × the median absolute deviation / the median of the blocks"),
                ("means", "what a step does with the gradient; speeds compare only for equal mathematics"),
                ("! busy", "other programs used a quarter of a core or more (5 % of the cores of a large machine) while the case ran"),
                ("disturbed", "other programs took the cores that the replicas needed: the case gets no speed"),
                ("unproven", "no gradient or no timed step could be judged: the case gets no speed"),
                ("wrong", "a check failed: the case gets no speed"))
    return join(lists, el("dl", [join(el("dt", word), el("dd", meaning)) for word, meaning in glossary]))
