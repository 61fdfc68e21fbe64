"""Strategies whose step 3 fails in some way, for tests of dpbench's messages."""
import ctypes
import os
import time

import dpbench


class Faulty(dpbench.Strategy):
    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.optimizer = setup.optimizer(self.model.parameters())

    def step(self, step, micro):
        if step == 3:
            self.fail()
        self.optimizer.zero_grad()
        result = self.passes(step, micro)
        self.update(step)
        return self.returned(*result) if step == 3 else result

    def fail(self):
        pass

    def returned(self, output, loss):
        return output, loss


def register(name, **methods):
    dpbench.strategy(name, gradient="local", average_every=1 << 20)(type(name, (Faulty,), {**methods, "__doc__": name}))


def fault(name, fail):
    register(name, fail=fail)


def returns(name, returned):
    register(name, returned=returned)


def raises(self):
    raise ValueError("on purpose")


def raises_on_rank_1(self):
    if self.setup.rank == 1:
        raise ValueError("only here")


def hangs_with_the_lock(self):
    while True:
        pass


fault("raises", raises)
fault("raises-on-rank-1", raises_on_rank_1)
fault("exits", lambda self: exit(5))
fault("exits-at-once", lambda self: os._exit(7))
fault("crashes", lambda self: ctypes.string_at(0))
fault("sleeps", lambda self: time.sleep(1000))
fault("hangs", hangs_with_the_lock)
returns("returns-a-number", lambda self, output, loss: 3.5)
returns("returns-three", lambda self, output, loss: (1, 2, 3))
returns("returns-nothing", lambda self, output, loss: None)
returns("returns-a-list", lambda self, output, loss: [output, loss])
returns("returns-the-loss-as-a-number", lambda self, output, loss: (output, loss.item()))
returns("one-row-short", lambda self, output, loss: (output[1:], loss))
returns("output-in-float16", lambda self, output, loss: (output.half(), loss))
returns("output-of-integers", lambda self, output, loss: (output.long(), loss))
returns("a-loss-per-sample", lambda self, output, loss: (output, loss.expand(len(output))))
returns("a-loss-of-integers", lambda self, output, loss: (output, loss.long()))
fault("out-of-memory", lambda self: bytearray(1 << 60))
