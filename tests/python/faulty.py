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
            if (answer := self.fail()) is not None:
                return answer
        self.optimizer.zero_grad()
        result = self.passes(step, micro)
        self.update(step)
        return result

    def fail(self):
        raise NotImplementedError


def fault(name, fail):
    dpbench.strategy(name, gradient="local", average_every=1 << 20)(type(name, (Faulty,), {"fail": fail, "__doc__": name}))


def raises(self):
    raise ValueError("on purpose")


def raises_on_rank_1(self):
    if self.setup.rank == 1:
        raise ValueError("only here")


def hangs_with_the_lock(self):
    while True:
        pass


def refuses(self):
    raise dpbench.UsageError("not today")


fault("raises", raises)
fault("raises-on-rank-1", raises_on_rank_1)
fault("exits", lambda self: exit(5))
fault("exits-at-once", lambda self: os._exit(7))
fault("crashes", lambda self: ctypes.string_at(0))
fault("sleeps", lambda self: time.sleep(1000))
fault("hangs", hangs_with_the_lock)
fault("returns-a-number", lambda self: 3.5)
fault("returns-three", lambda self: (1, 2, 3))
fault("out-of-memory", lambda self: bytearray(1 << 60))
fault("refuses", refuses)
