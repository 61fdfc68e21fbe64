"""A Linux control group (cgroup) with a memory limit for a test. Needs root and a writable cgroup hierarchy."""
import os
import tempfile
import time

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class Group:
    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        v1 = os.path.exists(V1 + "/memory.limit_in_bytes")
        self.path = tempfile.mkdtemp(prefix="dpbench-test-", dir=V1 if v1 else V2)
        try:
            with open(self.path + ("/memory.limit_in_bytes" if v1 else "/memory.max"), "r+", encoding="utf-8") as file:
                file.write(str(self.limit))
        except OSError:
            os.rmdir(self.path)
            raise
        return self

    def __exit__(self, *_):
        for _ in range(100):  # a process that just ended stays in the group for a moment
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)

    def command(self):
        """Returns a command prefix that runs a command in the control group."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh")


def can_be_made():
    try:
        with Group(1 << 30):
            return True
    except OSError:
        return False
