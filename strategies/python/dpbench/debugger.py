"""breakpoint() in a rank: pdb on dpbench's terminal. The rank's own stdin is empty, and its stdout is its log."""
import os
import pdb
import signal
import sys

from dpbench.errors import UsageError


class Debugger(pdb.Pdb):
    def __init__(self):
        self.terminal = os.open("/dev/tty", os.O_RDWR)
        super().__init__(stdin=open(self.terminal, closefd=False), stdout=open(self.terminal, "w", closefd=False),
                         nosigint=True)

    def interaction(self, *arguments):
        """Takes the terminal from dpbench while the user types: only one process group may read from it."""
        before = os.tcgetpgrp(self.terminal)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])  # would stop a background process in tcsetpgrp
        os.tcsetpgrp(self.terminal, os.getpgrp())
        try:
            super().interaction(*arguments)
        finally:
            os.tcsetpgrp(self.terminal, before)


def stop():
    """Replaces sys.breakpointhook."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if ranks != "1":
        raise UsageError(f"breakpoint() needs a run of one rank, such as --cpus 1. This run has {ranks}")
    try:
        debugger = Debugger()
    except OSError as error:
        raise UsageError(f"breakpoint() needs a terminal ({error})") from error
    debugger.set_trace(sys._getframe(1))
