"""Fails if plug-in headers changed without a review of the interface version, which is raised by hand.
workloads/api/plugin_abi.h stores the hash of the headers at the last review.

The headers are those of the plug-in interface and all dpbench headers that they include. No other headers are installed
(scripts/cmake/Install.cmake).
"""
import hashlib
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "workloads/api/plugin_abi.h"  # plugin_abi.h stores the hash and is not part of it
INTERFACE = ("strategies/api", "workloads/api")
BASE = "workloads/base"


def bare(text):
    """Returns the text without comments and white space."""
    tokens = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\s+', re.DOTALL)
    return tokens.sub(lambda found: found[1] or "", text)


def interface(root):
    """Returns {path: text without comments and white space} of all headers that a plug-in can include."""
    found, todo = {}, [path.relative_to(root).as_posix() for folder in INTERFACE for path in (root / folder).rglob("*.h") if path.name != ABI.name]
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
    def test_plugin_abi_h_holds_the_current_hash_of_the_plugin_headers(self):
        kept = re.search(r"// Headers[^:\n]*: (\w+)", ABI.read_text(encoding="utf-8"))[1]
        now = digest(interface(ROOT))
        self.assertEqual(now, kept, "\nA header of the plug-in interface has changed. If existing plug-ins would break (a type's members, their order or types,\n"
                         "a virtual function, a signature or its meaning): raise the number in workloads/api/plugin_abi.h. In either case,\n"
                         f"put the new hash there: {now}")

    def test_every_header_of_the_plugin_interface_is_hashed_and_installed(self):
        headers = interface(ROOT)
        for name in ("strategies/api/strategy.h", "strategies/api/trained.h", "strategies/api/backend.h", "strategies/api/parts/replica.h", "workloads/api/workload.h", "workloads/base/registry.h"):
            self.assertIn(name, headers)
        folders = tuple(f"{folder}/" for folder in (*INTERFACE, BASE))
        self.assertEqual([name for name in headers if not name.startswith(folders)], [])
        base = sorted(pathlib.Path(name).stem for name in headers if name.startswith(f"{BASE}/"))
        installed = (ROOT / "scripts/cmake/Install.cmake").read_text(encoding="utf-8")
        self.assertIn(f"foreach(folder {' '.join(INTERFACE)})", installed)
        self.assertIn(f"foreach(header {' '.join(base)})", installed)

    def test_a_changed_struct_member_changes_the_hash_of_the_plugin_headers_but_a_comment_does_not(self):
        self.assertEqual(bare('struct A {  // why\n  int a;  /* two\n lines */\n};\n'), bare("struct A { int a; };"))
        self.assertNotEqual(bare("struct A { int a; };"), bare("struct A { int a, b; };"))
        self.assertEqual(bare('f("a // b  c");'), 'f("a // b  c");')
        self.assertNotEqual(digest({"a.h": "x"}), digest({"b.h": "x"}))


if __name__ == "__main__":
    unittest.main()
