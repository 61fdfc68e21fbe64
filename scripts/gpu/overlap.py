"""Traces some steps on a GPU and prints the share of the host-to-device copy time that kernels overlap.

Prints {"copies_us": .., "under_kernels": share, "copies": count, "kernels": count}. Exits 1 if nothing was copied or no
copy ran beside a kernel.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def spans(events, category, word=""):
    return sorted((event["ts"], event["ts"] + event["dur"]) for event in events
                  if event.get("cat") == category and word in event.get("name", ""))


def joined(intervals):
    """Returns the union of sorted intervals as disjoint intervals."""
    union = []
    for begin, end in intervals:
        if union and begin <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([begin, end])
    return union


def common(intervals, others):
    """Returns the time that both lists of intervals cover."""
    return sum(max(0, min(end, until) - max(begin, since)) for begin, end in joined(intervals) for since, until in joined(others))


def overlap(events):
    copies, kernels = spans(events, "gpu_memcpy", "HtoD"), spans(events, "kernel")
    whole = sum(end - begin for begin, end in joined(copies))
    return {"copies_us": round(whole, 1), "under_kernels": round(common(copies, kernels) / whole, 3) if whole else 0.0,
            "copies": len(copies), "kernels": len(kernels)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dpbench", required=True)
    args, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([args.dpbench, "run", *flags, "--trace", "--launches", "1", "--samples", "1", "--max-time", "1", "--no-baseline",
                               "--check", "off", "-o", "none", "-q", "--out", out], check=False)
        traces = sorted(pathlib.Path(out).glob("*/traces/*.json"))
        if done.returncode or not traces:
            print(f"dpbench exited {done.returncode} and wrote {len(traces)} traces", file=sys.stderr)
            return 1
        found = overlap(json.loads(traces[0].read_text(encoding="utf-8"))["traceEvents"])
    print(json.dumps(found))
    return 0 if found["under_kernels"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
