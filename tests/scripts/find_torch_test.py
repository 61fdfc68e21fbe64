"""Tests scripts/find-torch (finds or downloads LibTorch): its search order and its downloads."""
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from unittest import mock

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/find-torch"
loader = importlib.machinery.SourceFileLoader("find_torch", str(SCRIPT))
find_torch = importlib.util.module_from_spec(importlib.util.spec_from_loader("find_torch", loader))
loader.exec_module(find_torch)

PIP_DOWNLOAD = find_torch.pip_download
HEADER = "#define TORCH_VERSION_MAJOR {}\n#define TORCH_VERSION_MINOR {}\n#define TORCH_VERSION_PATCH {}\n"


def contents(version):
    """Returns the files that make scripts/find-torch recognise a folder as a LibTorch of this version."""
    return {"torch/include/torch/headeronly/version.h": HEADER.format(*version.split(".")), "torch/lib/libtorch_cpu.so": "x"}


def make_torch(folder, version):
    for name, text in contents(version).items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return os.path.join(folder, "torch")


def make_wheel(files):
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel.getvalue()


class FindTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.downloads = []
        good = make_wheel({**contents("2.12.1"), "torch/nn/__init__.py": "", "torch-2.12.1.dist-info/METADATA": "pins"})
        self.served = {"torch.whl": good, "cupti.whl": make_wheel({"nvidia/cu13/lib/libcupti.so.13": "x"})}
        pins = [(name[:-4] + "==1", name, len(data), hashlib.sha256(data).hexdigest()) for name, data in self.served.items()]
        environment = {"XDG_CACHE_HOME": self.root, "DPBENCH_TORCH": "", "DPBENCH_TORCH_VERSION": "2.12.1"}
        for patch in (mock.patch.object(find_torch, "WHEELS", {"2.12.1": pins}),
                      mock.patch.object(find_torch, "pip_download", self.serve),
                      mock.patch.object(find_torch, "importable", lambda wanted: None),
                      mock.patch.object(find_torch, "say", lambda text: None),
                      mock.patch.dict(os.environ, environment)):
            patch.start()
            self.addCleanup(patch.stop)

    def serve(self, requirement, wheel, folder):
        self.downloads.append(requirement)
        pathlib.Path(folder, wheel).write_bytes(self.served[wheel])

    def cached(self, *names):
        return pathlib.Path(self.root, "dpbench", *names)

    def test_the_variable_dpbench_torch_may_name_a_libtorch_its_parent_or_a_python_environment(self):
        folder = make_torch(os.path.join(self.root, "env/lib/python3.12/site-packages"), "2.11.0")
        for path in (folder, os.path.dirname(folder), os.path.join(self.root, "env")):
            with self.subTest(path=path), mock.patch.dict(os.environ, DPBENCH_TORCH=path):
                self.assertEqual(find_torch.find(), folder)
        self.assertEqual(self.downloads, [])

    def test_find_torch_refuses_a_folder_in_dpbench_torch_without_a_supported_libtorch(self):
        old = make_torch(os.path.join(self.root, "old"), "2.10.0")
        for path, word in ((old, "2.10.0"), (self.root, re.escape(self.root))):
            with self.subTest(path=path), mock.patch.dict(os.environ, DPBENCH_TORCH=path):
                with self.assertRaisesRegex(find_torch.Refusal, word):
                    find_torch.find()

    def test_find_torch_downloads_and_unpacks_wheels_once(self):
        self.assertEqual(find_torch.find(), str(self.cached("torch-2.12.1/torch")))
        self.assertEqual(find_torch.find(), str(self.cached("torch-2.12.1/torch")))
        self.assertEqual(self.downloads, ["torch==1", "cupti==1"])
        self.assertTrue(self.cached("torch-2.12.1/nvidia/cu13/lib/libcupti.so.13").exists())
        self.assertTrue(self.cached("torch-2.12.1/torch-2.12.1.dist-info/METADATA").exists())
        self.assertFalse(self.cached("torch-2.12.1/torch/nn").exists())

    def test_find_torch_downloads_only_a_damaged_wheel_again(self):
        self.cached("wheels").mkdir(parents=True)
        self.cached("wheels/torch.whl").write_bytes(self.served["torch.whl"])
        self.cached("wheels/cupti.whl").write_bytes(self.served["cupti.whl"][:-1])
        find_torch.find()
        self.assertEqual(self.downloads, ["cupti==1"])

    def test_find_torch_refuses_and_removes_a_wheel_whose_hash_is_not_the_pinned_one(self):
        self.served["torch.whl"] += b"altered"
        with self.assertRaisesRegex(find_torch.Refusal, "torch.whl"):
            find_torch.find()
        self.assertFalse(self.cached("wheels/torch.whl").exists())
        self.assertFalse(self.cached("torch-2.12.1").exists())

    def test_find_torch_unpacks_wheels_again_if_the_unpacked_folder_is_incomplete(self):
        with mock.patch.object(zipfile.ZipFile, "extractall", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                find_torch.find()
        self.assertFalse(self.cached("torch-2.12.1").exists())
        find_torch.find()
        self.cached("torch-2.12.1/torch/lib/libtorch_cpu.so").unlink()
        find_torch.find()
        self.assertTrue(self.cached("torch-2.12.1/torch/lib/libtorch_cpu.so").exists())

    def python(self, name, line):
        path = pathlib.Path(self.root, name)
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def test_find_torch_uses_the_system_pythons_pip_if_its_own_python_has_none_or_says_how_to_install_it(self):
        without = self.python("without", "exit 1")
        system = self.python("system", f'[ "$1" = -c ] || echo "$*" >{self.root}/called')
        for other, called in ((system, True), (without, False), ("/absent/python3", False)):
            with self.subTest(other=other), mock.patch.object(find_torch, "SYSTEM_PYTHON", other), mock.patch.object(sys, "executable", without):
                if called:
                    PIP_DOWNLOAD("torch==1", "torch-1-cp312-cp312-linux_x86_64.whl", self.root)
                    self.assertRegex(pathlib.Path(self.root, "called").read_text(encoding="utf-8"), "^-m pip download .* torch==1$")
                else:
                    self.assertRaisesRegex(find_torch.Refusal, "apt-get install python3-pip", PIP_DOWNLOAD, "torch==1", "t-cp312-any.whl", self.root)

    def test_a_libtorch_version_that_is_not_pinned_is_refused(self):
        with mock.patch.dict(os.environ, DPBENCH_TORCH_VERSION="2.9.0"):
            with self.assertRaisesRegex(find_torch.Refusal, "2.9.0"):
                find_torch.find()


class FastEvent(threading.Event):
    """An event that waits a hundredth of the requested time and notes the requested times in `timeouts`."""
    timeouts = []

    def wait(self, timeout=None):
        self.timeouts.append(timeout)
        return super().wait(timeout and timeout / 100)


class Progress(unittest.TestCase):
    def fetch(self, terminal):
        """Simulates a download of 2 MB: 1 MB and then 3 MB appear in the folder. Returns the progress output and the
        intervals between updates."""
        said = io.StringIO()
        said.isatty = lambda: terminal
        FastEvent.timeouts = []
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "stderr", said), mock.patch.object(find_torch.threading, "Event", FastEvent):
            with find_torch.progress("torch==1", folder, 2_000_000):
                for size, shown in ((1_000_000, "1 of 2 MB"), (3_000_000, "2 of 2 MB")):
                    os.makedirs(os.path.join(folder, "pip"), exist_ok=True)
                    with open(os.path.join(folder, "pip/torch.whl"), "wb") as file:
                        file.truncate(size)
                    deadline = time.monotonic() + 10
                    while shown not in said.getvalue() and time.monotonic() < deadline:
                        time.sleep(0.01)
        return said.getvalue(), set(FastEvent.timeouts) - {None}

    def test_find_torch_shows_download_progress_on_a_terminal_as_a_single_updating_line(self):
        said, waited = self.fetch(terminal=True)
        self.assertRegex(said, r"\Adpbench: .*\btorch==1\b.*\b2 MB\b.*\n")
        for shown in ("1 of 2 MB", "2 of 2 MB"):
            self.assertRegex(said, rf"dpbench: [^\r\n]*\btorch==1\b[^\r\n]*\b{shown}\r")
        self.assertTrue(said.endswith("\r\033[K"), said)
        self.assertEqual((said.count("\n"), waited), (1, {0.5}))

    def test_find_torch_prints_download_progress_every_10_seconds_without_a_terminal(self):
        said, waited = self.fetch(terminal=False)
        for shown in ("1 of 2 MB", "2 of 2 MB"):
            self.assertRegex(said, rf"(?m)^dpbench: .*\btorch==1\b.*\b{shown}$")
        self.assertNotIn("\r", said)
        self.assertEqual(waited, {10})


class Program(unittest.TestCase):
    def run_script(self, **environment):
        return subprocess.run([sys.executable, SCRIPT], env={**os.environ, "DPBENCH_TORCH_VERSION": "", **environment},
                              capture_output=True, text=True, check=False)

    def test_find_torch_prints_only_the_folder_on_stdout(self):
        with tempfile.TemporaryDirectory() as root:
            folder = make_torch(root, "2.15.3")
            result = self.run_script(DPBENCH_TORCH=root)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, folder + "\n", ""))

    def test_find_torch_uses_an_importable_torch_only_if_its_version_is_supported(self):
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as cache:
            folder = make_torch(root, "2.13.0")
            pathlib.Path(folder, "__init__.py").touch()
            cached = make_torch(os.path.join(cache, "dpbench/torch-2.11.0"), "2.11.0")
            environment = {"DPBENCH_TORCH": "", "PYTHONPATH": root, "XDG_CACHE_HOME": cache}
            self.assertEqual(self.run_script(**environment).stdout, folder + "\n")
            make_torch(root, "2.16.0")
            result = self.run_script(**environment)
            self.assertEqual(result.stdout, cached + "\n")
            self.assertIn("2.16.0", result.stderr)

    def test_find_torch_names_the_process_for_whose_download_it_waits(self):
        with tempfile.TemporaryDirectory() as root:
            name = os.path.join(root, "lock")
            with open(name, "a+", encoding="utf-8") as held, open(name, "a+", encoding="utf-8") as other:
                find_torch.take(held)
                said = io.StringIO()
                with contextlib.redirect_stderr(said):
                    waiting = threading.Thread(target=find_torch.take, args=(other,))
                    waiting.start()
                    waiting.join(0.5)
                    self.assertTrue(waiting.is_alive())
                    fcntl.flock(held, fcntl.LOCK_UN)
                    waiting.join(60)
                self.assertRegex(said.getvalue(), rf"\Afind-torch: .*\b{os.getpid()}\b.*{re.escape(name)}\n\Z")

    def test_find_torch_refuses_a_missing_folder_with_one_line_and_exit_code_2(self):
        result = self.run_script(DPBENCH_TORCH="/nonexistent")
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1))
        self.assertIn("/nonexistent", result.stderr)


if __name__ == "__main__":
    unittest.main()
