"""Derives figures from the output of scripts/gpu-check's parts, given as {part: {label: JSON}}."""
import statistics

ENOUGH = 0.9  # the GPU counts as busy if a batch or scale reaches this part of the sweep's best share of the peak


def cases(said, part):
    return [case for report in said.get(part, {}).values() if report for case in report.get("cases", [])]


def step_us(case):
    stats = (case.get("stats") or {}).get("step_time_ns")
    return stats["median"] / 1e3 if case.get("status") == "ok" and stats else None


def fastest(found):
    return min((us for us in map(step_us, found) if us), default=None)


def share_of_peak(rows):
    """Returns the share of the measured matrix-product rate that the fastest of these cases reaches, run eagerly or as
    a CUDA graph; None if unknown."""
    known = [case["derived"] for case in rows if (case.get("derived") or {}).get("flop_per_step")]
    us = fastest(rows)
    if not known or not us or not known[0].get("peak_flop_per_s"):
        return None
    # Only the eager step counts its floating-point operations; the recorded step (CUDA graph) has the same number.
    return known[0]["flop_per_step"] / (us * 1e-6) / known[0]["peak_flop_per_s"]


def peak_shares(said, part, axis):
    """Returns {(workload, batch or scale): share of the measured matrix-product rate}, ordered by batch or scale."""
    groups = {}
    for case in cases(said, part):
        groups.setdefault((case["workload"], case[axis]), []).append(case)
    shares = {point: share_of_peak(groups[point]) for point in sorted(groups)}
    return {point: share for point, share in shares.items() if share}


def busy_from(shares):
    """Returns {workload: (smallest batch or scale with nearly the best share, largest measured one, True if these are
    equal)}. If they are equal, a larger batch or scale may give a higher share."""
    found = {}
    for workload in sorted({workload for workload, _ in shares}):
        places = [(place, share) for (of, place), share in shares.items() if of == workload]
        best = max(share for _, share in places)
        first = next(place for place, share in places if share >= ENOUGH * best)
        if len(places) > 1:
            found[workload] = (first, places[-1][0], first == places[-1][0])
    return found


def peers(said):
    """Returns [(mode, workload, median in us)] of the step times of the Python peers (the same training in PyTorch)."""
    reports = {**said.get("peers", {}), **said.get("peers-gpt", {})}
    return [(mode, workload, statistics.median(samples)) for mode, report in reports.items() if report
            for workload, samples in report.get("step_us", {}).items() if samples]


def allreduces(said):
    """Returns the allreduce times {message bytes: {"shm, world 2": us}} of the successful measurements."""
    sizes = {}
    parts = [labels for part, labels in said.items() if part == "measure-allreduce" or part.startswith("collectives-")]
    for report in [report for labels in parts for report in labels.values()]:
        for entry in (report or {}).get("benchmarks", []):
            words = entry["name"].split("/")
            measured = entry.get("run_type") == "iteration" and entry.get("time_us") and not entry.get("wrong")
            if words[0] == "allreduce" and measured:
                arm = words[1].replace("backend:", "") + ", " + words[2].replace(":", " ")
                sizes.setdefault(int(entry["bytes"]), {})[arm] = entry["time_us"]
    return dict(sorted(sizes.items()))
