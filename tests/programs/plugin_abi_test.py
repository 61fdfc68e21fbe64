"""The plug-in interface's number is raised by hand: workloads/api/plugin_abi.h keeps beside it what the headers were when somebody last looked.

The headers: those of the interface, and all that these include of ours. Nothing else is installed (scripts/cmake/Install.cmake).
"""
import hashlib
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "workloads/api/plugin_abi.h"  # itself not counted
INTERFACE = ("strategies/api", "workloads/api")
INSTALLED = (*INTERFACE, "workloads/base")


def bare(text):
    """Without comments and blank space."""
    tokens = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\s+', re.DOTALL)
    return tokens.sub(lambda found: found[1] or "", text)


def interface(root):
    """Path: bare text."""
    found, todo = {}, [path.relative_to(root).as_posix() for folder in INTERFACE for path in (root / folder).glob("*.h") if path.name != ABI.name]
    while todo:
        name = todo.pop()
        if name not in found and name != "workloads/api/plugin_abi.h":
            text = (root / name).read_text(encoding="utf-8")
            found[name] = bare(text)
            todo += re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
    return found


def digest(headers):
    return hashlib.sha256("\n".join(f"{name} {headers[name]}" for name in sorted(headers)).encode()).hexdigest()[:16]


class PluginAbi(unittest.TestCase):
    def test_the_number_was_thought_of_when_a_header_changed(self):
        kept = re.search(r"// Headers of this number: (\w+)", ABI.read_text(encoding="utf-8"))[1]
        now = digest(interface(ROOT))
        self.assertEqual(now, kept, "\nA header that plug-ins are built with has changed. If a plug-in built before would not survive it (a type's members, "
                         "their order or\ntypes, a virtual function, a signature or the meaning of one): raise the number in workloads/api/plugin_abi.h. Then, in "
                         f"either case,\nput the new hash there: {now}")

    def test_what_counts_is_there_and_installed(self):
        headers = interface(ROOT)
        for name in ("strategies/api/strategy.h", "strategies/api/trained.h", "strategies/api/backend.h", "workloads/api/workload.h", "workloads/base/registry.h"):
            self.assertIn(name, headers)
        self.assertEqual([name for name in headers if str(pathlib.PurePosixPath(name).parent) not in INSTALLED], [])
        installed = (ROOT / "scripts/cmake/Install.cmake").read_text(encoding="utf-8")
        self.assertIn(f"foreach(folder {' '.join(INSTALLED)})", installed)

    def test_a_member_counts_and_a_comment_does_not(self):
        self.assertEqual(bare('struct A {  // why\n  int a;  /* two\n lines */\n};\n'), bare("struct A { int a; };"))
        self.assertNotEqual(bare("struct A { int a; };"), bare("struct A { int a, b; };"))
        self.assertEqual(bare('f("a // b  c");'), 'f("a // b  c");')
        self.assertNotEqual(digest({"a.h": "x"}), digest({"b.h": "x"}))


if __name__ == "__main__":
    unittest.main()
