"""A run with a fault in it, watched from outside: when the fault struck, when the front told of it, when the front had ended."""
import os
import subprocess
import threading
import time

import leftovers


class Watched:
    """Runs a command to its end. Times are time.monotonic(), None where it did not come to that: `struck` as the plug-in noted it,
    `told` when a line of stderr first held one of the words, `ended` when the process was gone."""

    def __init__(self, command, folder, variables, words, patience):
        self.told, self.lines = None, []
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
            if self.told is None and any(word in line for word in words):
                self.told = time.monotonic()
