"""Runs a rank's process in a Python interpreter: host.py LIBRARY TORCH [arguments of dpbench-worker]. This program
runs the Python files among the plug-ins (--plugin, DPBENCH_PLUGINS); the library loads all other plug-ins."""
import ctypes
import mmap
import os
import sys
import traceback
import warnings


class Imports:
    """Sends a heartbeat to dpbench for each module that is imported, because imports can take longer than --timeout on
    a busy machine: torch itself, or torch._dynamo in a strategy's first step. Python calls find_spec() for each import.
    It returns None, so Python then asks the next finder."""

    def __init__(self):
        with open(os.environ["DPBENCH_PROGRESS"], "r+b") as file:
            page = mmap.mmap(file.fileno(), 0)
        # Progress::beat of this rank (harness/report/record/protocol.h). It counts down from 0 until the rank joins the
        # others.
        self.beat, self.each = ctypes.c_int64.from_buffer(page, 64 * int(os.environ["RANK"]) + 8), -1
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        self.beat.value += self.each

    def end_start(self):
        self.beat.value, self.each = 0, 1


def main():
    package = os.path.dirname(os.path.abspath(__file__))
    # sys.path[0] was the folder of this file. Its modules would hide other modules of the same names.
    sys.path[0] = os.path.dirname(package)
    imports = Imports() if os.environ.get("DPBENCH_PROGRESS") else None
    sys.stdout.reconfigure(line_buffering=True)  # a rank ends without flushing Python's buffers
    library, built_with, *arguments = sys.argv[1:]
    sys.argv = sys.argv[:1]
    stdout = os.dup(1)
    os.dup2(2, 1)  # stdout carries only the worker's own output, which dpbench reads: prints of plug-ins go to stderr
    # dpbench does not need NumPy, which "pip install torch" leaves out.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    require_torch(built_with)
    files, arguments = python_files(arguments)
    from dpbench import bridge, debugger
    bridge.connect(library)
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = debugger.stop
    try:
        for file in files:
            bridge.run_file(file)
        bridge.register_all()
    except BaseException as error:
        from dpbench.errors import UsageError, line_of
        usage = isinstance(error, UsageError)
        # The line with "dpbench-worker: " becomes dpbench's error message. dpbench prints the other lines before it.
        print(f"dpbench-worker: --plugin {bridge.running}: {error if usage else line_of(error, files)}", file=sys.stderr)
        if not usage:
            traceback.print_exc()
        os._exit(2)
    sys.stdout.flush()
    os.dup2(stdout, 1)
    os.close(stdout)
    if imports:
        imports.end_start()
    words = [word.encode() for word in arguments]
    code = bridge.native.dpbench_worker(len(words), (ctypes.c_char_p * len(words))(*words))
    sys.stdout.flush()
    os._exit(code)


def require_torch(built_with):
    """Imports torch first, so that its LibTorch is the only one in this process. Exits if torch has another version."""
    remedy = f"Choose another Python with --python, or run '{sys.executable} -m pip install torch=={built_with}'"
    try:
        import torch
    except ImportError as error:
        print(f"dpbench-worker: --python: {sys.executable} cannot import torch ({error}). {remedy}", file=sys.stderr)
        os._exit(2)
    found = torch.__version__.split("+")[0]
    if found != built_with:
        print(f"dpbench-worker: --python: {sys.executable} has torch {found}, but dpbench was built with {built_with}. "
              f"{remedy}, or build dpbench with DPBENCH_TORCH={os.path.dirname(torch.__file__)}", file=sys.stderr)
        os._exit(2)


def python_files(arguments):
    """Returns the Python files among the plug-ins, and the arguments without them."""
    files, others = [], []
    for word in arguments:
        if word.endswith(".py") and others and others[-1] == "--plugin":
            others.pop()
            files.append(word)
        else:
            others.append(word)
    plugins = [file for file in os.environ.get("DPBENCH_PLUGINS", "").split(":") if file]
    os.environ["DPBENCH_PLUGINS"] = ":".join(file for file in plugins if not file.endswith(".py"))
    return files + [file for file in plugins if file.endswith(".py")], others


if __name__ == "__main__":
    main()
