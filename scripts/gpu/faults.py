"""Makes one rank of ddp fail on a GPU with each fault of a plug-in, and checks that dpbench names the cause and ends.
Then checks that a run on the same GPU succeeds.

Prints {"faults": {name: reason that dpbench gave}}. Exits 1 if a reason is not the expected one.
"""
import argparse
import json
import os
import subprocess
import sys

FAILED = 3  # dpbench's exit code if a rank failed
# {fault of the plug-in: words that the reason must contain}. device-memory and device-assert need a GPU.
EXPECTED = {"device-memory": "out of memory", "device-assert": "device-side assert", "kill": "signal 9", "throw": "the strategy's own words"}
ON_THE_CPU = ("kill", "throw")


def run(dpbench, out, strategy, *flags):
    # DPBENCH_KEEP_DISTURBED keeps results although other programs use the cores, because this script times nothing.
    quiet = {**os.environ, "DPBENCH_KEEP_DISTURBED": "1"}
    done = subprocess.run([dpbench, "run", "--strategy", strategy, "--workload", "random-linear", "--quick", "--no-baseline", "--check", "off",
                           "--timeout", "20", "-o", "json", "-q", "--out", out, *flags], capture_output=True, text=True, errors="replace", check=False, env=quiet)
    try:
        return done.returncode, json.loads(done.stdout)["cases"][0]["reason"] or ""
    except (ValueError, KeyError, IndexError):
        return done.returncode, done.stderr.strip()[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dpbench", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--out", required=True, help="directory for the runs")
    args, devices = parser.parse_known_args()
    found, wrong = {}, []
    for fault in EXPECTED if "--gpus" in devices else ON_THE_CPU:
        code, found[fault] = run(args.dpbench, args.out, "faulty-ddp", "--plugin", args.plugin, "--param", f"fault={fault}", *devices)
        if code != FAILED or EXPECTED[fault] not in found[fault]:
            wrong.append(f"{fault}: exit {code}, {found[fault]}")
    code, reason = run(args.dpbench, args.out, "ddp", *devices)
    if code:
        wrong.append(f"the run after the faults: exit {code}, {reason}")
    print(json.dumps({"faults": found}))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
