"""python -m dpbench.export mlflow|wandb|tensorboard RUN.json DIR: writes a stored run for another tool, offline."""
import argparse
import importlib
import sys

from dpbench.errors import UsageError
from dpbench.export import cases

TOOLS = ("mlflow", "wandb", "tensorboard")  # the names of the libraries on PyPI; each has a module to_NAME


def arguments(words):
    parser = argparse.ArgumentParser(prog="python -m dpbench.export",
                                     description="Writes a stored run for another tool.")
    parser.add_argument("tool", choices=TOOLS, help="the tool, which is also the library that writes its files")
    parser.add_argument("run", metavar="RUN.json", help="the report of a run")
    parser.add_argument("folder", metavar="DIR", help="folder for the tool's files; other runs in it are kept")
    return parser.parse_args(words)


def complain(message, code):
    print(f"dpbench: {message}", file=sys.stderr)
    return code


def main(words):
    options = arguments(words)
    try:
        run = cases.read(options.run)
        hint = importlib.import_module(f"dpbench.export.to_{options.tool}").export(run, options.folder)
    except ModuleNotFoundError as error:
        return complain(f"{error}. Type: {sys.executable} -m pip install {options.tool}", 2)
    except UsageError as error:
        return complain(error, 2)
    except OSError as error:
        return complain(f"not written: {error}", 5)
    print(f"dpbench: {len(run.cases)} cases of {run.name} in {options.folder}; {hint}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
