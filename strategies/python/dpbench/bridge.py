"""Connects dpbench's library and Python in both directions: the library calls one Python function with the name of a
request, and Python calls the library's operators (torch.ops.dpbench)."""
import ctypes
import importlib.util
import os
import sys
import traceback

import torch

from dpbench import registration
from dpbench.errors import PACKAGE, UnsuitableModel, UsageError, line_of

native = None  # dpbench's C++ library, loaded by connect()
files = []     # the user's plug-in files
running = ""   # the plug-in file that is being run
handlers = {}  # functions that answer requests, by the request's name; see call() for their arguments


def handler(function):
    handlers[function.__name__.encode()] = function
    return function


def connect(library):
    global native
    torch.ops.load_library(library)
    native = ctypes.CDLL(library)
    native.dpbench_set_function(call)
    from dpbench import hosted_models, strategies  # noqa: F401 - they add their handlers


def given():
    return torch.ops.dpbench.given_tensors.default()


def answer(tensors, names=()):
    torch.ops.dpbench.answer.default(list(names), list(tensors))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
def call(request, number, argument):
    """Answers a request of the library. number: number of the strategy, model or workload. argument: depends on the
    request: the step, a seed, or 0. Returns a value of Outcome (strategies/python/call.h). A forward pass with a step
    below 0 only finds out whether the model accepts a batch of one sample: its error is not printed."""
    try:
        handlers[request](number, argument)
        return 0
    except BaseException as error:  # SystemExit and KeyboardInterrupt must be reported too
        usage = isinstance(error, UsageError)
        if not usage and not (request in (b"model_forward", b"block_forward") and argument < 0):
            traceback.print_exc()  # prints to the rank's log
        native.dpbench_set_error((str(error) if usage else line_of(error, files)).encode(errors="replace"))
        if usage:
            return 4 if isinstance(error, UnsuitableModel) else 2
        return 3 if isinstance(error, MemoryError) or "can't allocate memory" in str(error) else 1


def run_file(file):
    """Runs a plug-in file as a module. For a user's file, adds its folder to sys.path. The folder of this package is
    not added: its modules would hide the user's modules of the same names."""
    global running
    running = file
    files.append(file)
    folder, name = os.path.dirname(file), os.path.splitext(os.path.basename(file))[0]
    if folder != PACKAGE:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle and some classes look up their module there
    spec.loader.exec_module(module)


def register_all():
    """Registers the strategies and workloads of all plug-in files."""
    for number, entry in registration.strategies.items():
        params = [text for param in entry.params for text in param]
        torch.ops.dpbench.register_strategy.default(number, entry.fields, entry.promise is not None, params)
    from dpbench import hosted_models
    for number, entry in registration.workloads.items():
        torch.ops.dpbench.register_workload.default(number, hosted_models.fields_of(number, entry))


@handler
def promise(number, _):
    entry = registration.strategies[number]
    values = dict(text.split("=", 1) for text in torch.ops.dpbench.given_texts.default())
    fields = entry.promise(values) or {}
    torch.ops.dpbench.answer_texts.default([text for field, value in fields.items() for text in (field, registration.text_of(value))])
