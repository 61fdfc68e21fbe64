"""report.py [--html FILE] [--charts DIR] [--collectives FILE] [--projection FILE] [--plan FILE]
[--answers FILE] --version V --program DPBENCH RUN..|--verdict FILE: writes the HTML page and the charts of runs, or of a
duel or a comparison. `dpbench report` calls this script after it has validated the files."""
import argparse
import os
import sys
import traceback

import environment


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--html")
    parser.add_argument("--charts")
    parser.add_argument("--collectives")
    parser.add_argument("--projection")
    parser.add_argument("--plan")
    parser.add_argument("--answers", help="JSON of the answers, by run, that the runs do not store")
    parser.add_argument("--version", default="unknown")
    parser.add_argument("--program", help="path of dpbench, which lists the parameters of models")
    parser.add_argument("--drawing", action="store_true", help="this Python belongs to the drawing environment")
    parser.add_argument("--verdict")
    parser.add_argument("runs", nargs="*")
    return parser.parse_args(words)


def complain(message, code):
    print(f"dpbench: {message}", file=sys.stderr)
    return code


def become_drawing_python():
    """Replaces this process by the same script under the drawing environment's Python, which has matplotlib."""
    python = str(environment.python())
    os.execv(python, [python, "-EsB", *sys.argv, "--drawing"])


def main():
    options = arguments(sys.argv[1:])
    try:
        if not options.drawing and not os.environ.get("DPBENCH_PYTHON"):
            become_drawing_python()
        if options.drawing:
            os.environ["MPLCONFIGDIR"] = str(environment.folder() / "matplotlib")
        import matplotlib  # noqa: F401
    except environment.Unusable as error:
        return complain(error, 2)
    except ImportError as error:
        remedy = f"Remove {environment.folder()}" if options.drawing else "Unset DPBENCH_PYTHON"
        return complain(f"{sys.executable} cannot draw ({error}). {remedy}, then dpbench installs matplotlib itself", 2)
    import write  # imported late, because it needs matplotlib
    try:
        summary = write.write(options)
    except OSError as error:
        return complain(f"not written: {error.filename}: {error.strerror}", 5)
    except Exception as error:  # a bug in dpbench: reports its place without a traceback
        place = traceback.extract_tb(error.__traceback__)[-1]
        return complain(f"could not be drawn: {type(error).__name__}: {error} ({place.filename}:{place.lineno})", 3)
    print(f"dpbench: {summary}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
