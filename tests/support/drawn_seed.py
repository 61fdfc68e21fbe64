"""Runs `dpbench check` with a random seed. If the exit code is not the expected one, prints the seed and the failed
rows, and repeats the run once with the same seed: a wrong verdict fails again, a failure due to machine load does not.
"""
import json
import re
import subprocess


def rows_of(stdout):
    """Returns a line for each failed check and failed or unproven case in the JSON output of a check."""
    try:
        cases = json.loads(stdout)["cases"]
    except ValueError:
        return ["no report on stdout: " + stdout[-500:]]
    lines = [f"{case['id']} {case['status']}: {case.get('reason', '')}" for case in cases if case["status"] in ("failed", "unproven")]
    return lines + [f"{case['id']} {row['name']}: error {row['error']}, bound {row['bound']}, {row['detail']} {row['likely']}".rstrip()
                    for case in cases for row in case["checks"] if row["status"] == "failed"]


def seed_of(done):
    """Returns the seed that a check names in its last lines on stderr; None if it names no seed."""
    found = re.findall(r"\bseed (\d+)", done.stderr)
    return found[-1] if found else None


def check(command, code=0):
    """Runs a command with JSON output. If the exit code is not `code` and the seed was random, repeats the command with
    that seed. Returns the last result."""
    def run(*more):
        return subprocess.run([*map(str, command), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    done = run()
    if done.returncode == code:
        return done
    seed = seed_of(done)
    print(f"exit {done.returncode} instead of {code} with --seed {seed}: {' '.join(map(str, command))}", *rows_of(done.stdout), sep="\n  ", flush=True)
    if seed is None or "--seed" in command:
        return done
    again = run("--seed", seed)
    if again.returncode == code:
        print(f"passed when repeated with --seed {seed}: the machine was loaded, or the strategy is not repeatable", flush=True)
    else:
        print(f"exit {again.returncode} when repeated with --seed {seed}: the verdict does not depend on load", *rows_of(again.stdout), sep="\n  ", flush=True)
    return again
