"""The conformance matrix on the HTML page: one table per strategy with checks as rows and workloads as columns. A
failed cell opens a row with the check's evidence (expected and found values)."""
import words
from data import count
from markup import el, join
from tables import scrolling


def cells_of(cases):
    """Returns {check name: {workload: [(case, check result)]}}."""
    found = {}
    for case in cases:
        for check in case.checks:
            found.setdefault(check["name"], {}).setdefault(case.workload, []).append((case, check))
    return found


def where(case):
    backend = f" {case.backend}" if case.backend != "none" else ""
    return f"{case.workload}, world {case.world}{backend}, {case.dtype}"


def evidence(case, check):
    numbers = [f"{key} {words.significant(check[key])}" for key in ("error", "bound") if check.get(key) is not None]
    facts = [("case", where(case)), ("compared", check.get("compared")), ("measured", ", ".join(numbers)),
             ("expected and found", check.get("detail")), ("looks like", check.get("likely"))]
    return el("dl", [join(el("dt", key), el("dd", value)) for key, value in facts if value])


def cell(number, name, workload, found):
    """Returns a table cell and its evidence row. If a case failed, the cell is a button that opens the evidence row;
    otherwise it shows the number of passed cases, and the evidence row is None."""
    if not found:
        return el("td", "", class_="empty"), None
    failed = [pair for pair in found if pair[1]["status"] == "failed"]
    passed = sum(check["status"] == "passed" for _, check in found)
    if failed:
        target = f"evidence-{number}"
        button = el("button", f"✗ {len(failed)}/{len(failed) + passed}", type="button", aria_expanded="false", aria_controls=target,
                    aria_label=f"{name} on {workload}: {len(failed)} failed; show the evidence")
        return el("td", button, class_="failed"), (target, [evidence(*pair) for pair in failed])
    if passed:
        shares = [check["error"] / check["bound"] for _, check in found if check.get("error") is not None and check.get("bound")]
        worst = f", at most {max(shares):.0%} of the bound" if shares else ""
        return el("td", f"✓ {passed}", class_="passed", title=f"{name} on {workload}: {count(passed, 'case')} passed{worst}"), None
    return el("td", "–", class_="skipped", title=found[0][1].get("detail") or "skipped"), None


def matrix(strategy, cases, first):
    """Returns the table of a strategy and the next free evidence number. The numbers of evidence rows start at
    `first`."""
    cells = cells_of(cases)
    workloads = list(dict.fromkeys(case.workload for case in cases if case.checks))
    rows, number = [], first
    for name, by_workload in cells.items():
        line, opened = [el("th", name, scope="row", class_="long" if len(name) > 28 else None)], []
        for workload in workloads:
            shown, more = cell(number, name, workload, by_workload.get(workload))
            line.append(shown)
            if more:
                opened.append(more)
                number += 1
        rows.append(el("tr", line))
        rows += [el("tr", el("td", content, colspan=str(len(workloads) + 1)), id=target, class_="evidence", hidden=True)
                 for target, content in opened]
    head = el("tr", el("th", "check", scope="col"), [el("th", el("span", workload), scope="col") for workload in workloads])
    red = sum(check["status"] == "failed" for case in cases for check in case.checks)
    judged = sum(check["status"] == "passed" for case in cases for check in case.checks)
    title = el("summary", el("h3", strategy), el("span", f"{judged:,} passed"),
               el("span", f"{red:,} failed", class_="failed") if red else None)
    table = scrolling(f"Checks of {strategy}", el("table", el("thead", head), el("tbody", rows), class_="matrix"))
    return el("details", title, table, open=bool(red) or None, class_="strategy"), number


def conformance(runs):
    """Returns the matrices of all strategies as HTML, or None if no run has a check."""
    cases = [case for run in runs for case in run.cases if case.checks]
    if not cases:
        return None
    parts, number = [], 0
    for strategy in dict.fromkeys(case.strategy for case in cases):
        part, number = matrix(strategy, [case for case in cases if case.strategy == strategy], number)
        parts.append(part)
    return join(parts)
