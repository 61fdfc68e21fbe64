"""A control group with a limit of memory, made for a test. Wants root and a hierarchy that can be written to."""
import os
import tempfile
import time

FIRST, SECOND = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"  # versions of control groups


class Group:
    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        first = os.path.exists(FIRST + "/memory.limit_in_bytes")
        self.path = tempfile.mkdtemp(prefix="dpbench-test-", dir=FIRST if first else SECOND)
        try:
            with open(self.path + ("/memory.limit_in_bytes" if first else "/memory.max"), "r+", encoding="utf-8") as file:
                file.write(str(self.limit))
        except OSError:
            os.rmdir(self.path)
            raise
        return self

    def __exit__(self, *_):
        for _ in range(100):  # whoever has just ended is in it for an instant
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)

    def command(self):
        """Runs what follows it in the group."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh")


def can_be_made():
    try:
        with Group(1 << 30):
            return True
    except OSError:
        return False
