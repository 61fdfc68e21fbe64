"""The exception for user errors, and the one-line text of an exception in messages."""
import os
import traceback

PACKAGE = os.path.dirname(os.path.abspath(__file__))


class UsageError(Exception):
    """A user's mistake, such as parameter values that cannot be combined. dpbench exits with code 2, or skips the
    workload that a strategy refuses."""


class UnsuitableModel(UsageError):
    """Raised by a strategy that cannot train this kind of model, such as one without blocks."""


def line_of(error, files):
    """Returns the exception's type, the first line of its text, and the innermost line of the user's files (or, if it
    passed through none, outside of this package)."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if os.path.dirname(os.path.abspath(frame.filename)) != PACKAGE]
    own = [frame for frame in frames if frame.filename in files] or outside
    place = f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno} in {own[-1].name})" if own else ""
    if isinstance(error, SyntaxError):
        place = ""  # the text of a SyntaxError names the line
    text = str(error).strip()
    return type(error).__name__ + (": " + text.splitlines()[0] if text else "") + place
