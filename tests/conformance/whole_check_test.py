"""whole_check_test.py DPBENCH: runs `dpbench check` as a user does: over every backend, with ranks as processes and a
random seed. Checks two or three strategies, others each day (share() in drawn_tests.py), or
all if DPBENCH_CASES is "all". Then checks all strategies in bfloat16 on a small transformer, which each of them can train.
The flag --timeout of dpbench ends a check that hangs."""
import json
import os
import subprocess
import sys

from drawn_seed import check
from drawn_tests import share

dpbench, drawn = sys.argv[1], os.environ.get("DPBENCH_CASES", "1")
named = []
if drawn != "all":
    listed = json.loads(subprocess.run([dpbench, "list", "-o", "json"], stdout=subprocess.PIPE, check=True).stdout)
    on_cpu = sorted(strategy["name"] for strategy in listed["strategies"] if strategy["cpu"])
    named = ["--strategy", ",".join(share(on_cpu, len(on_cpu) // 2))]
code = 0
for flags in (named, ["--dtype", "bf16", "--workload", "gpt", "--cpus", "2", "--short"]):
    done = check([dpbench, "check", *flags, "--timeout", "60", "-o", "json"])
    print(*flags, done.stderr)
    code = code or done.returncode
sys.exit(code)
