"""Writes README.md, the result page of a run of scripts/gpu-check: its parts, its speed targets, and the figures."""
import figures

SWEEPS = (("measure-batches", "batch", "rows"), ("measure-scales", "scale", "--scale"))


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(head, rows):
    return [row(*head), "|" + "---|" * len(head), *(row(*cells) for cells in rows)]


def parts(summary):
    return table(("part", "status", "seconds", "limit", "what, and why not"), (
        (one["name"], one["status"], one["seconds"], one["limit_s"], one["what"] + (": " + one["reason"] if one["reason"] else ""))
        for one in summary["parts"]))


def targets(summary):
    return table(("target", "wanted", "measured", "verdict"),
                 ((one["name"], one["target"], one["measured"], one["verdict"]) for one in summary["targets"]))


def steps(said):
    rows = []
    for part in (part for part in said if part.startswith("measure-")):
        for case in figures.cases(said, part):
            us, derived = figures.step_us(case), case.get("derived") or {}
            share = derived.get("flop_share")
            how = f", {case['world']} replicas" if case.get("world", 1) > 1 else ""
            how += f", {case['mesh']}" if case.get("mesh") else ""
            how += f", recompute {case['recompute']}" if case.get("recompute") else ""
            how += {"on": ", graph"}.get(case["params"].get("graph"), "") + {"plain": ", plain link"}.get(case["params"].get("link"), "")
            peak, power, throttled = (derived.get(name) for name in ("peak_memory_bytes", "gpu_power_w", "throttled_share"))
            rows.append((part.removeprefix("measure-"), " ".join(filter(None, (case["workload"], case.get("model")))), case["strategy"] + how,
                         case["scale"], case["dtype"], case["batch"], f"{us:.1f}" if us else case["status"],
                         f"{derived['samples_per_s']:,.0f}" if derived.get("samples_per_s") else "", f"{100 * share:.1f} %" if share else "",
                         f"{peak / 2**20:,.0f}" if peak else "", f"{power:.0f}" if power else "", "" if throttled is None else f"{100 * throttled:.0f} %"))
    return table(("part", "workload", "strategy", "scale", "dtype", "rows", "median step, us", "rows/s", "of the matrix-product rate", "peak MiB", "W",
                  "throttled"), rows)


def busy(said):
    for part, axis, unit in SWEEPS:
        for workload, (first, last, grew) in figures.busy_from(figures.peak_shares(said, part, axis)).items():
            shares = ", ".join(f"{place}: {100 * share:.2g} %" for (of, place), share in figures.peak_shares(said, part, axis).items() if of == workload)
            text = f"the share of the measured matrix-product rate still grew at {last}" if grew else f"busy from {first} on"
            yield f"- {workload} by {unit}: {text} ({shares})"


def python(said):
    return table(("Python's mode", "workload", "median step, us"), ((mode, workload, f"{us:.1f}") for mode, workload, us in figures.peers(said)))


def allreduces(said):
    sizes = figures.allreduces(said)
    arms = sorted({arm for times in sizes.values() for arm in times})
    return table(("bytes", *arms), ((f"{size:,}", *(f"{times[arm]:.1f}" if arm in times else "" for arm in arms)) for size, times in sizes.items()))


def page(summary, said):
    where = "virtual CPU devices (a rehearsal: the figures are meaningless)" if summary["rehearsal"] else summary["gpu"] or "no GPU"
    lines = [f"# gpu-check on {where}", "", f"`{' '.join(summary['command'])}`: {summary['seconds']} s in all.", "", *parts(summary), "", *targets(summary)]
    for title, rows in (("Steps", steps(said)), ("Python's steps", python(said)), ("A call of allreduce, us", allreduces(said))):
        lines += ["", f"## {title}", "", *(rows if len(rows) > 2 else ["Nothing was measured."])]
    lines += ["", "## Where the GPU is busy", "", f"Busy: a step reaches {100 * figures.ENOUGH:.0f} % of the sweep's best share; beyond it, "
              "more work only takes longer.", "", *(list(busy(said)) or ["Nothing was measured."])]
    return "\n".join(lines) + "\n"
