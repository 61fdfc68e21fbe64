"""Strategies and models in Python, trained, timed and judged by dpbench.

    import dpbench

    @dpbench.strategy("mine", gradient="mean_of_means")
    class Mine(dpbench.Strategy):
        def step(self, step, micro): ...

    $ dpbench check --plugin ./mine.py --strategy mine
"""
from dpbench.checking import Checks, Wrong, check, frame, run
from dpbench.errors import UnsuitableModel, UsageError
from dpbench.registration import strategy, workload

__all__ = ["Batch", "Checks", "Setup", "Strategy", "UnsuitableModel", "UsageError", "Wrong", "check", "frame", "phase",
           "run", "strategy", "workload"]


def __getattr__(name):
    """Imports names that need torch on their first use: a test program that only calls check() needs no torch."""
    if name in ("Batch", "Setup", "Strategy", "phase"):
        from dpbench import strategies
        return getattr(strategies, name)
    raise AttributeError(f"module 'dpbench' has no attribute '{name}'")
