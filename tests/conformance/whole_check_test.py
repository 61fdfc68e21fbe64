"""whole_check_test.py DPBENCH: runs `dpbench check` as a user does: over every backend, with ranks as processes and a
random seed. The flag --timeout ends a hanging check."""
import sys

from drawn_seed import check

done = check([sys.argv[1], "check", "--timeout", "60", "-o", "json"])
print(done.stderr)
sys.exit(done.returncode)
