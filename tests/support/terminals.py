"""Reads what programs print on a pseudo-terminal."""
import os


def read_terminal(terminal):
    """Returns all that the program has printed, and closes the terminal. The caller has closed its own copy of the
    program's end."""
    printed = b""
    try:
        while part := os.read(terminal, 65536):
            printed += part
    except OSError:
        pass  # reading fails once the program has closed the terminal
    os.close(terminal)
    return printed
