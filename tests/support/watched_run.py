"""Runs dpbench with an injected fault and records when the fault happened, was reported, and dpbench had ended."""
import os
import subprocess
import threading
import time

import leftovers


class WatchedRun:
    """Runs a command to its end, or kills it after `patience` seconds.

    Times are from time.monotonic(), or None if the event did not happen. `struck`: the fault happened (recorded by the
    plug-in). `reported`: a line with one of `words` appeared on stderr. `ended`: the process exited."""

    def __init__(self, command, folder, variables, words, patience):
        self.reported, self.lines = None, []
        marks = folder + "/struck"
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **variables, "DPBENCH_STRUCK": marks}) as front:
            listener = threading.Thread(target=self._listen, args=(front.stderr, words))
            listener.start()
            timer = threading.Timer(patience, front.kill)
            timer.start()
            self.stdout = front.stdout.read()
            self.code = front.wait()
            self.ended = time.monotonic()
            timer.cancel()
            listener.join()
        self.stderr = "".join(self.lines)
        first = leftovers.read(marks).split()[:1]
        self.struck = int(first[0]) * 1e-9 if first else None

    def _listen(self, stream, words):
        for line in stream:
            self.lines.append(line)
            if self.reported is None and any(word in line for word in words):
                self.reported = time.monotonic()
