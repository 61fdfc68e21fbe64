"""The plug-in interface's number is raised by hand: workloads/plugin_abi.h keeps beside it what the headers were when somebody last looked.

The headers: what is installed of the strategies and workloads and names types that cross the border, and all that these include of ours.
"""
import hashlib
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ABI = ROOT / "workloads/plugin_abi.h"  # itself not counted
SEEN = ("strategies/*.h", "strategies/comm/backend.h", "workloads/*.h", "workloads/layers/*.h")
NOT_INSTALLED = ("strategies/comm/shm/", "strategies/comm/gloo_shim/")


def bare(text):
    """Without comments and blank space."""
    tokens = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\s+', re.DOTALL)
    return tokens.sub(lambda found: found[1] or "", text)


def interface(root):
    """Path: bare text."""
    found, todo = {}, [path.relative_to(root).as_posix() for pattern in SEEN for path in root.glob(pattern) if path.name != ABI.name]
    while todo:
        name = todo.pop()
        if name not in found and name != "workloads/plugin_abi.h":
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
                         "their order or\ntypes, a virtual function, a signature or the meaning of one): raise the number in workloads/plugin_abi.h. Then, in "
                         f"either case,\nput the new hash there: {now}")

    def test_what_counts_is_there_and_installed(self):
        headers = interface(ROOT)
        for name in ("strategies/strategy.h", "strategies/params.h", "strategies/comm/backend.h", "workloads/workload.h", "workloads/registry.h"):
            self.assertIn(name, headers)
        self.assertEqual([name for name in headers if name.startswith(NOT_INSTALLED)], [])

    def test_a_member_counts_and_a_comment_does_not(self):
        self.assertEqual(bare('struct A {  // why\n  int a;  /* two\n lines */\n};\n'), bare("struct A { int a; };"))
        self.assertNotEqual(bare("struct A { int a; };"), bare("struct A { int a, b; };"))
        self.assertEqual(bare('f("a // b  c");'), 'f("a // b  c");')
        self.assertNotEqual(digest({"a.h": "x"}), digest({"b.h": "x"}))


if __name__ == "__main__":
    unittest.main()
