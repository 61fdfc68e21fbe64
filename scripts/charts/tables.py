"""The tables of the HTML page: cases, problems, collectives, memory of tensors, and remarks."""
import words
from data import DEVICES, count
from markup import el, join

STATUSES = ("ok", "wrong", "failed", "unproven", "disturbed", "skipped", "interrupted")
NONE = el("td", "-", class_="none number", data_v="")


def scrolling(name, table):
    """Returns a table in a box that scrolls horizontally, also by keyboard."""
    return el("div", table, class_="scroll", role="region", aria_label=name, tabindex="0")


def cell(value, text):
    """Returns a table cell that shows `text` and sorts by the number `value`; a cell with "-" if `value` is None."""
    return NONE if value is None else el("td", text, class_="number", data_v=repr(float(value)))


def figure(case, key, say):
    value = case.derived.get(key) if case.measured else None
    return cell(value, say(value) if value is not None else "")


def throughput_cell(case):
    """Returns the cell of the throughput in samples/s, with tokens/s where samples have tokens."""
    tokens = case.derived.get("tokens_per_s")
    more = f" ({words.significant(tokens, 4)} tokens/s)" if tokens else ""
    return figure(case, "samples_per_s", lambda value: words.significant(value, 4) + more)


def percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def half_width(case):
    span = case.step_ns
    return (span.high - span.low) / 2 / span.middle


def with_half(span, digits):
    """Returns the middle of an interval with half its width, e.g. "1.62±0.04"; "1.62" if the width is 0."""
    half = f"±{(span.high - span.low) / 2:.{digits}f}" if span.high > span.low else ""
    return f"{span.middle:.{digits}f}{half}"


def efficiency_cell(case):
    """Returns the cell of the efficiency, marked by "!" if it is above 100 % by more than its interval."""
    span = case.efficiency if case.measured else None
    if not span:
        return NONE
    above = not case.is_baseline and (case.derived.get("efficiency_low") or 0) > 1
    return cell(span.middle, with_half(span.scaled(100), 0) + (" % !" if above else " %"))


def status_cell(case):
    busy = el("span", " ! busy", class_="disturbed", title="other programs or the host used cores meanwhile") if case.busy else None
    return el("td", "projection" if case.projected else case.status, busy, class_=case.status, title=case.reason or None)


def checks_cell(case):
    failed = [check["name"] for check in case.checks if check["status"] == "failed"]
    passed = sum(check["status"] == "passed" for check in case.checks)
    if failed:
        return el("td", f"{len(failed)} failed: {failed[0]}" + (", …" if len(failed) > 1 else ""), class_="wrong")
    return el("td", f"{passed} passed" if passed else "-", class_="" if passed else "none")


COLUMNS = ("strategy", "workload", "setting", "world", "status", "step", "±95 %", "samples/s", "speed-up", "efficiency", "comm.", "noise",
           "memory, MiB", "n", "means", "checks")


def row(case, several):
    measured = case.measured
    samples = case.summary if measured and not case.projected else None
    setting = f"{DEVICES.get(case.device, case.device)} {case.scaling} {case.batch} {case.dtype} {case.runtime}"
    cells = [el("th", case.series, scope="row", title=case.id, class_="long" if len(case.series) > 28 else None),
             el("td", case.workload), el("td", setting), cell(case.world, str(case.world)),
             status_cell(case),
             cell(case.step_ns.middle if measured else None, words.duration(case.step_ns.middle) if measured else ""),
             cell(half_width(case) if measured else None, percent(half_width(case), 1) if measured else ""),
             throughput_cell(case),
             figure(case, "speedup", lambda _: with_half(case.speedup, 2) + "x"), efficiency_cell(case),
             figure(case, "comm_fraction", percent), figure(case, "noise", lambda value: percent(value, 1)),
             figure(case, "peak_memory_bytes", lambda value: f"{value / 2**20:,.0f}"),
             cell(samples["n"] if samples else None, f"{samples['n']} / {samples['launches']}" if samples else ""),
             el("td", case.means or "-"), checks_cell(case)]
    if several:
        cells.append(el("td", case.run.id))
    return el("tr", cells, data_status=case.status)


def cases(runs):
    """Returns the table of cases, or None if it would be empty. Cases of `dpbench check` appear only in the conformance
    matrix."""
    everything = [case for run in runs if not run.only_checks for case in run.cases]
    if not everything:
        return None
    several = len(runs) > 1
    columns = COLUMNS + (("run",) if several else ())
    head = [el("th", el("button", column, type="button"), scope="col", class_="" if place in (0, 1, 2, 4, 14, 15) else "number")
            for place, column in enumerate(columns)]
    alike = [case for case in everything if not case.other_mathematics]
    bodies = [el("tbody", [row(case, several) for case in alike])] if alike else []
    if apart := [case for case in everything if case.other_mathematics]:
        title = "Other mathematics than the baseline's: speeds do not compare"
        bodies += [el("tbody", el("tr", el("th", title, scope="rowgroup", colspan=len(columns))), class_="heading"),
                   el("tbody", [row(case, several) for case in apart])]
    present = [status for status in STATUSES if any(case.status == status for case in everything)]
    choices = [el("label", el("input", type="checkbox", checked=True, value=status), " ", status) for status in present]
    return join(el("div", el("label", "Filter ", el("input", type="search", id="filter", placeholder="ddp weak", autocomplete="off")),
                   el("fieldset", el("legend", "status"), choices, class_="choices"),
                   el("output", count(len(everything), "case"), id="shown", for_="filter", aria_live="polite"), class_="controls"),
                scrolling("Cases", el("table", el("thead", el("tr", head)), bodies, id="cases-table", class_="sortable")))


MOST_PROBLEMS = 50


def problem(case):
    failed = [check for check in case.checks if check["status"] == "failed"]
    lines = [el("li", el("b", check["name"]), ": ", check.get("detail") or "failed",
                join(" Looks like: ", check["likely"], ".") if check.get("likely") else None) for check in failed[:5]]
    why = join(": ", case.reason) if case.reason else None
    return el("li", el("b", case.status, class_=case.status), " ", el("code", case.id), why, el("ul", lines) if lines else None)


def folded(summary, cases):
    return el("details", el("summary", summary), el("ul", [problem(case) for case in cases]))


def problems(runs):
    """Returns a list of the cases that gave no figures: wrong, failed, unproven and interrupted ones in full, disturbed
    and skipped ones folded away. Returns None if there are none."""
    found = {status: [case for run in runs for case in run.cases if case.status == status] for status in STATUSES[1:]}
    grave = found["wrong"] + found["failed"] + found["unproven"] + found["interrupted"]
    parts = [el("ul", [problem(case) for case in grave[:MOST_PROBLEMS]], class_="problems") if grave else None]
    if len(grave) > MOST_PROBLEMS:
        parts.append(folded(f"{len(grave) - MOST_PROBLEMS} more", grave[MOST_PROBLEMS:]))
    if any(run.status == "interrupted" for run in runs):
        parts.insert(0, el("p", "A run was interrupted: the remaining cases are missing.", class_="lead"))
    if found["disturbed"]:
        parts.append(folded(f"{count(len(found['disturbed']), 'case')} disturbed by other programs", found["disturbed"]))
    if found["skipped"]:
        parts.append(folded(f"{count(len(found['skipped']), 'case')} skipped", found["skipped"]))
    return join(parts) if any(parts) else None


def ledger_of(case):
    """Returns the ledger of the first profiled rank: one dict per collective operation and axis of the mesh."""
    for launch in case.raw.get("launches") or []:
        for rank in launch["ranks"]:
            if rank.get("profile"):
                return rank["profile"].get("ledger") or []
    return []


def ledger_row(case, entry):
    formula, calls = entry["formula_bytes"], entry.get("formula_calls")
    ratio = entry["bytes"] / formula if formula else None
    return el("tr", [el("th", case.series, scope="row", title=case.id), el("td", case.workload), cell(case.world, str(case.world)),
                     el("td", entry["axis"]), el("td", entry["op"]), cell(entry["calls"], f"{entry['calls']:g}"), cell(calls, f"{calls or 0:g}"),
                     cell(entry["bytes"], f"{entry['bytes']:,.0f}"), cell(formula, f"{formula or 0:,.0f}"),
                     cell(ratio, f"{ratio or 0:.3f}")])


def ledger(runs):
    """Returns a table of the calls and bytes of each collective operation, counted and by the strategy's formula; None if no
    case has any."""
    rows = [ledger_row(case, entry) for run in runs for case in run.cases if case.measured for entry in ledger_of(case)]
    if not rows:
        return None
    columns = ("strategy", "workload", "world", "axis", "operation", "calls", "by formula", "bytes", "by formula", "ratio")
    return with_head("Collectives", columns, (2, 5, 6, 7, 8, 9), rows)


def with_head(name, columns, numbers, rows):
    """Returns a table of `rows` with a head. columns: their names. numbers: indices of the columns of numbers."""
    head = el("tr", [el("th", column, scope="col", class_="number" if place in numbers else "") for place, column in enumerate(columns)])
    return scrolling(name, el("table", el("thead", head), el("tbody", rows)))


def memory_rows(case):
    """Returns a row per part of the memory of tensors, and one of the total. Formulas count temporary tensors as activations."""
    found, formula = dict(case.memory_parts), dict(case.raw.get("memory_formula") or {})
    if not found or not formula:
        return []
    found["activations"] += found.pop("temporary")
    found["total"], formula["total"] = sum(found.values()), sum(formula.values())
    return [el("tr", [el("th", case.series, scope="row", title=case.id), el("td", case.workload), cell(case.world, str(case.world)),
                      el("td", part), cell(found[part], f"{found[part]:,.0f}"), cell(size, f"{size:,.0f}"),
                      cell(found[part] / size if size else None, f"{found[part] / (size or 1):.3f}")]) for part, size in formula.items()]


def memory(runs):
    """Returns a table of the memory of tensors by part, measured and by the closed formulas; None if no case has a formula."""
    rows = [row for run in runs for case in run.cases if case.measured for row in memory_rows(case)]
    columns = ("strategy", "workload", "world", "part", "bytes", "by formula", "ratio")
    return with_head("Memory", columns, (2, 4, 5, 6), rows) if rows else None


def remarks(runs):
    """Returns a list of the warnings and notices of all cases."""
    lines = [el("li", el("code", case.id), ": ", remark) for run in runs for case in run.cases for remark in case.remarks]
    if not lines:
        return None
    return el("ul", lines) if len(lines) <= 12 else el("details", el("summary", count(len(lines), "remark")), el("ul", lines))
