"""Writes the titles of charts. A function returns one sentence on what its chart shows, or on why its cases cannot be
compared."""
import math
import statistics

import words
from data import Interval, ceiling, count, speedup_over

MOST_NAMES = 3
MEMORY_ERROR = 0.01  # share of host memory, as in harness/report/answer/members.cpp
UNDECIDED = "no difference that this run can tell"


def name(case):
    return words.short(case.series, 24)


def who(cases, of):
    """Returns the names of the series of `cases` if they are few, otherwise e.g. "5 of 8 series". `of`: all cases."""
    if len(cases) <= MOST_NAMES:
        return words.listed([name(case) for case in cases])
    return f"all {len(of)} series" if len(cases) == len(of) else f"{len(cases)} of {len(of)} series"


def capital(sentence):
    return sentence[:1].upper() + sentence[1:] if sentence.startswith("all ") else sentence


def largest_world(cases):
    """Returns the cases of the largest measured world."""
    measured = [case for case in cases if not case.projected]
    return [case for case in measured if case.world == max(each.world for each in measured)]


def not_ranked(what, why):
    return f"{what} is not ranked: {why}" if why else ""


def why_not_comparable(cases):
    """Returns why cases cannot be compared; empty if they come from one run, were checked and compute the same."""
    runs = {case.run.id for case in cases}
    if len(runs) > 1:
        return f"cases of {len(runs)} runs"
    unchecked = [case for case in cases if not case.checks]
    if unchecked:
        return f"{who(unchecked, cases)} {'is' if len(unchecked) == 1 else 'are'} unchecked"
    apart = [case for case in cases if not case.computes_as_baseline]
    return f"{who(apart, cases)} may compute another step than the baseline" if apart else ""


def why_not_ranked(cases):
    """Returns why cases cannot be ranked; empty if they can be compared and have intervals that cover the variation
    between launches."""
    few = any(case.summary["interval"] != "launches" for case in cases)
    return why_not_comparable(cases) or (few and only_launches([case.summary["launches"] for case in cases]) or "")


def only_launches(numbers, of="case"):
    return f"only {words.span_of(numbers, 'launch')} a {of}"


def leaders(spans):
    """Returns the cases that may be best: those whose interval overlaps the best one's. `spans`: {case: Interval}."""
    best = max(spans.values(), key=lambda span: span.middle, default=None)
    return [case for case, span in spans.items() if span.high >= best.low]


def speeds(cases):
    """Returns {case: Interval}: speed-ups over one reference in pairs of blocks if all cases have them, otherwise
    throughputs."""
    if not cases[0].run.reference and all(case.is_baseline or case.derived.get("speedup_low") for case in cases):
        return {case: case.speedup for case in cases}
    return {case: case.rows_per_s for case in cases}


def throughput(cases, base):
    at = largest_world(cases)
    if not at:
        return "Throughput is projected, not measured"
    alone = len(at) == 1 and base not in (None, at[0])
    if why := why_not_ranked([base, *at] if alone else at):
        return not_ranked("Throughput", why)
    place = f"at world {at[0].world}"
    if len(at) > 1:
        best = leaders(speeds(at))
        if len(best) > 1:
            return capital(f"{who(best, at)} {place}: {UNDECIDED}")
        return f"{name(best[0])} is fastest {place}: {words.significant(best[0].rows_per_s.middle)} samples/s"
    if not alone:
        return f"{name(at[0])} reaches {words.significant(at[0].rows_per_s.middle)} samples/s {place}"
    return f"{name(at[0])} {place} is {words.interval(speedup_over(at[0], base), 'x')} of {name(base)}"


def efficiency(cases, base):
    """Says which strategy loses least against linear scaling in the largest world in which each replica has its own
    cores. If replicas share cores in all worlds, compares with the largest speed-up that the cores allow."""
    free = [case for case in cases if 1 < case.world == ceiling(base, case.world)]
    at = largest_world(free) or largest_world(cases)
    if not at or at[0].world == 1:
        return "Efficiency beyond world 1 is projected, not measured"
    if why := why_not_ranked([base, *at]):
        return not_ranked("Efficiency", why)
    limit = ceiling(base, at[0].world)
    spans = {case: speedup_over(case, base).scaled(100 / limit) for case in at}
    best = leaders(spans)
    place = f"at world {at[0].world}"
    if max(spans[case].high for case in best) >= 100:
        verb = "loses" if len(best) == 1 else "lose"
        return capital(f"{who(best, at)} {verb} nothing {place} that this run can tell")
    ideal = "linear" if limit == at[0].world else "the cores' ceiling"
    if len(best) == 1:
        return f"{name(best[0])} keeps {words.interval(spans[best[0]], ' %', digits=2)} of {ideal} {place}"
    low, high = min(spans[case].low for case in best), max(spans[case].high for case in best)
    return capital(f"{who(best, at)} keep {low:.0f} to {high:.0f} % of {ideal} {place}")


def against_baseline(cases, base):
    at = largest_world(cases)
    if why := why_not_ranked([base, *at]):
        return not_ranked("Speed-up", why)
    spans = {case: speedup_over(case, base) for case in at}
    above = [case for case, span in spans.items() if span.low > 1]
    below = [case for case, span in spans.items() if span.high < 1]
    place = f"than {name(base)} at world {at[0].world}"
    if above:
        return capital(f"{who(above, at)} faster {place}") + (f"; {who(below, at)} slower" if below else "")
    if below:
        return capital(f"{who(below, at)} slower {place}")
    return capital(f"{who(at, at)} at world {at[0].world}: {UNDECIDED}")


def shares(case, phase):
    """Returns the share of a phase in the step of each launch, in percent."""
    launches = [[rank["phases_ns"] for rank in launch["ranks"]] for launch in case.raw.get("launches") or []]
    known = [ranks for ranks in launches if ranks and all(ranks)] or [[case.phases]]
    return [100 * sum(rank.get(phase, 0) for rank in ranks) / (sum(sum(rank.values()) for rank in ranks) or 1)
            for ranks in known]


def parts(cases):
    """Says how much of a step is exposed communication, or else the phase that is largest in every case."""
    at = largest_world(cases)
    largest = {max(case.phases, key=case.phases.get) for case in at}
    phases = {"communication"} if any(case.phases.get("communication") for case in at) else largest
    if "graph" in largest:  # a recorded step has only the phase "graph"
        return "Steps recorded as a CUDA graph have no parts"
    if len(phases) != 1:
        return "The largest part of a step differs between cases"
    (phase,) = phases
    found = [round(share) for case in at for share in shares(case, phase)]
    takes = f"takes {words.from_to(found)} % of a step at world {at[0].world}"
    if phase == "communication":
        return f"Exposed communication {takes}"
    return f"{phase.capitalize()} {takes}, the largest part"


def spread(quartiles):
    """Says how far the timed blocks of any case spread around the case's median. `quartiles`: the lower and upper
    quartile of each case's block times, in percent from the median."""
    most = max(max(-low, high) for low, high in quartiles)
    return f"Half of each case's blocks are within {math.ceil(most) if most > 1 else 1} % of its median"


def memory(spans, of="memory"):
    """Says which case needs the least memory. `spans`: {case: Interval in MiB}. Compares cases of the largest world,
    and of these the cases with the most processes: a process with all replicas is not comparable with a rank."""
    place = max((case.world, case.raw["processes"]) for case in spans)
    at = {case: span for case, span in spans.items() if (case.world, case.raw["processes"]) == place}
    if len(at) == 1:
        ((case, span),) = at.items()
        return f"{name(case)} needs {span.middle:,.0f} MiB of {of} at world {place[0]}"
    if why := why_not_comparable(at):
        return not_ranked(of.capitalize(), why)
    best = leaders({case: Interval(-span.middle, -span.high, -span.low) for case, span in at.items()})
    if len(best) > 1:
        return capital(f"{who(best, at)} at world {place[0]}: no difference in {of} that this run can tell")
    return f"{name(best[0])} needs least {of} at world {place[0]}: {at[best[0]].middle:,.0f} MiB"


def peak_memory(spans):
    """Says which case has the lowest peak memory. Host memory is not ranked with fewer than three launches or in a
    report before version 1.4. `spans`: {case: Interval over launches}."""
    host = [case for case in spans if case.device != "cuda"]
    if any(len(case.peaks) < 3 for case in host):
        return not_ranked("Memory", only_launches([len(case.peaks) for case in host]))
    ranks = [rank for case in host for launch in case.raw["launches"] for rank in launch["ranks"]]
    if not all(rank.get("own_rss_bytes") for rank in ranks):
        return not_ranked("Memory", "before report 1.4 it includes LibTorch's code")
    return memory({case: span if case.device == "cuda" else
                   Interval(span.middle, min(span.low, (1 - MEMORY_ERROR) * span.middle),
                            max(span.high, (1 + MEMORY_ERROR) * span.middle))
                   for case, span in spans.items()})


def loss(curves):
    """Says to which value the loss falls and from which value. Does not rank the trainings, because each ran only once.
    `curves`: the losses of the steps of each training."""
    falling = [curve for curve in curves if curve[-1] < curve[0]]
    if len(falling) < len(curves):
        return f"The loss of {len(curves) - len(falling)} of {len(curves)} trainings does not fall"
    ends, starts = [curve[-1] for curve in curves], [curve[0] for curve in curves]
    return f"Loss falls to {words.from_to(ends)}, from {words.from_to(starts)}"


def accuracy(trainings):
    """Says how many trainings reached the target accuracy. `trainings`: the key `training` of each case."""
    wanted = {training["target_accuracy"] for training in trainings}
    if len(wanted) > 1 or None in wanted:
        last = [next(value for value in reversed(training["accuracy"]) if value is not None) for training in trainings]
        return f"Accuracy reaches {words.from_to(last)}"
    able = sum(training["time_to_accuracy_s"] is not None for training in trainings)
    return f"{able} of {len(trainings)} trainings reached an accuracy of {words.significant(wanted.pop())}"


def history(lines):
    """Says how the step times have changed since the first run. `lines`: for each series, its cases from the oldest run
    to the newest."""
    all_cases = [case for cases in lines for case in cases]
    if any(case.summary["interval"] != "launches" for case in all_cases):
        return f"Changes are not judged: {only_launches([case.summary['launches'] for case in all_cases], 'run')}"
    ends = [(cases[0], cases[-1]) for cases in lines]
    changed = [(first, last) for first,
               last in ends if first.step_ns.high < last.step_ns.low or last.step_ns.high < first.step_ns.low]
    place = f"at world {lines[0][0].world}"
    if not changed:
        return f"No change {place} that these runs can tell"
    if len(changed) > 1:
        return f"{len(changed)} of {len(lines)} series changed {place} since their first run"
    first, last = changed[0]
    ratio = last.step_ns.middle / first.step_ns.middle
    difference = f"{100 * abs(ratio - 1):.0f} % {'more' if ratio > 1 else 'less'}"
    return f"A step of {name(last)} {place} takes {difference} time than in its first run"


def latency(sizes):
    """Says which backend is fastest at the most message sizes, and at how many. The plain copy in memory (memcpy) is
    not compared. `sizes`: {bytes: {arm: [us of each repetition]}}, with an arm for each backend."""
    sizes = {size: {arm: values for arm, values in times.items() if arm != "memcpy"} for size, times in sizes.items()}
    arms = sorted({arm for times in sizes.values() for arm in times})
    several_worlds = len({arm.partition(", ")[2] for arm in arms}) > 1  # an arm is "shm" or "shm, world 2"
    if not arms:
        return "No backend was measured"
    if len(arms) == 1:
        size = min(size for size, times in sizes.items() if times)
        return f"{arms[0]} takes {words.from_to(sizes[size][arms[0]])} µs for {words.size(size)}"
    if several_worlds:
        return not_ranked("Latency", "backends of different worlds")
    if any(len(values) < 2 for times in sizes.values() for values in times.values()):
        return not_ranked("Latency", "only 1 repetition")
    if any(len(times) < 2 for times in sizes.values()):
        return not_ranked("Latency", "backends of different sizes")
    firsts = []
    for times in sizes.values():
        best = min(times, key=lambda arm: statistics.median(times[arm]))
        if all(max(times[best]) < min(values) for arm, values in times.items() if arm != best):
            firsts.append(best)
    if not firsts:
        return f"{words.listed(arms)}: {UNDECIDED}"
    best = max(sorted(set(firsts)), key=firsts.count)
    wins = firsts.count(best)
    others = [arm for arm in arms if arm != best]
    first = "fastest" if len(others) > 1 else f"faster than {others[0]}"
    return f"{best} is {first} at {'every size' if wins == len(sizes) else f'{wins} of {len(sizes)} sizes'}"


def bandwidth(sizes):
    size = max(sizes)
    rates = {arm: [size / us / 1e3 for us in values] for arm, values in sizes[size].items()}
    if len(rates) > MOST_NAMES:
        return f"{words.size(size)}: {len(rates)} backends reach {words.from_to(sum(rates.values(), []))} GB/s"
    reached = [f"{arm}: {words.from_to(values)} GB/s" for arm, values in rates.items()]
    once = "" if all(len(values) > 1 for values in rates.values()) else ", measured once"
    return f"{'; '.join(reached)} for {words.size(size)}{once}"


def tuning(verdicts):
    """Says whether a candidate of `dpbench tune` is faster than the default values. `verdicts`: {values of a judged
    candidate: its stored verdict}."""
    for best in (values for values, verdict in verdicts.items() if verdict == "faster"):
        return f"{best} is faster than the default"
    unclear = [values for values, verdict in verdicts.items() if verdict == "unclear"]
    if unclear:
        return f"{words.listed(unclear)} and the default: {UNDECIDED}"
    return "No candidate beats the default" if verdicts else "No candidate was judged"


def changes(rows, labels):
    """Says which cases fail the gate of a duel or comparison; if none fails, which are unclear. labels: the label of
    each row."""
    chosen = [row for row in rows if row.bad] or [row for row in rows if row.verdict == "unclear"]
    if not chosen:
        return "No case fails"
    word = chosen[0].verdict.lower()
    if len(chosen) == 1:
        return f"{labels[rows.index(chosen[0])]} is {word} ({chosen[0].change_text})"
    return f"{len(chosen)} of {count(len(rows), 'case')} are {word}"
