"""Passes classes that a notebook, a test or a program has defined to the ranks, in a plug-in file that holds them by
value (package cloudpickle)."""
import os
import pickle
import sys

from dpbench import registration

KINDS = {"strategy": registration.strategies, "workload": registration.workloads}  # {flag: registered classes}


class Passed:
    """Collects the classes (strategies and workloads) that a call of dpbench got as arguments."""

    def __init__(self):
        self.entries = {flag: [] for flag in KINDS}

    def __bool__(self):
        return any(self.entries.values())

    def names_of(self, flag, given):
        """Returns the names for this flag's value: a name, a class, or a list of both."""
        listed = given if isinstance(given, (list, tuple)) else [given]
        return [self.name_of(flag, item) if isinstance(item, type) else item for item in listed]

    def name_of(self, flag, cls):
        """Returns the name of a class. A class without decorator is registered under its own name."""
        found = [entry for entry in KINDS[flag].values() if entry.cls is cls]
        if not found:
            getattr(registration, flag)(cls.__name__)(cls)
            found = list(KINDS[flag].values())
        if found[-1] not in self.entries[flag]:
            self.entries[flag].append(found[-1])
        return found[-1].fields["name"]

    def write(self, file):
        """Writes the plug-in file. The ranks also search for modules where this program does."""
        paths = [os.path.abspath(path) for path in sys.path]
        with open(file, "w", encoding="utf-8", opener=lambda path, mode: os.open(path, mode, 0o600)) as out:
            out.write(f"# Classes that a Python program has passed to dpbench.\nfrom dpbench import passing\n\n"
                      f"passing.register({paths!r}, {self.pickled()!r})\n")

    def pickled(self):
        try:
            import cloudpickle
        except ImportError:
            raise ImportError("a class is passed to the ranks by the package cloudpickle: install it, or write the class "
                              "to a file and give the file") from None
        classes = [entry.cls for entries in self.entries.values() for entry in entries]
        modules = {cls.__module__: sys.modules[cls.__module__] for cls in classes if cls.__module__ in sys.modules}
        for module in modules.values():  # the ranks must not import a module of tests, which pytest rewrites
            cloudpickle.register_pickle_by_value(module)
        try:
            return cloudpickle.dumps(self.entries)
        except Exception as error:
            names = ", ".join(cls.__name__ for cls in classes)
            raise TypeError(f"{names}: cannot be passed to the ranks ({error}). Create such objects in a method, or "
                            "write the class to a file and give the file") from error
        finally:
            for module in modules.values():
                cloudpickle.unregister_pickle_by_value(module)


def register(paths, pickled):
    """Registers the classes in a rank."""
    sys.path.extend(path for path in paths if path not in sys.path)
    for flag, entries in pickle.loads(pickled).items():
        for entry in entries:
            KINDS[flag][len(KINDS[flag]) + 1] = entry
