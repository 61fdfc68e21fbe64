"""consumer_test.py BUILD: installs a build of dpbench, moves the installed tree elsewhere, and uses it from a
third-party project."""
import pathlib
import shutil
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop())
SOURCE = pathlib.Path(__file__).parents[1] / "fakes/consumer"


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        raise AssertionError(f"{command}: exit code {result.returncode}\n{result.stdout}")
    return result.stdout


class Consumer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = BUILD / "consumer"
        shutil.rmtree(cls.root, ignore_errors=True)
        run("cmake", "--install", BUILD, "--prefix", cls.root / "first")
        cls.prefix = (cls.root / "first").rename(cls.root / "moved")

    def test_another_project_builds_and_runs_against_the_installed_cmake_package(self):
        build = self.root / "build"
        run("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertIn("consumer: ", run(build / "consumer"))

    def test_cmakes_find_package_rejects_another_minor_version_of_dpbench(self):
        project = self.root / "newer"
        project.mkdir()
        text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8").replace("dpbench 0.1", "dpbench 0.2")
        (project / "CMakeLists.txt").write_text(text, encoding="utf-8")
        with self.assertRaisesRegex(AssertionError, "0.2"):
            run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_the_installed_programs_run(self):
        program = self.prefix / "bin/dpbench"
        self.assertRegex(run(program, "--version"), r"\d+\.\d+\.\d+")
        self.assertIn("mnist-mlp", run(program, "list"))

    def test_man_page_and_completions_are_installed(self):
        for file, start in (("man/man1/dpbench.1", ".TH DPBENCH 1"), ("bash-completion/completions/dpbench", "# bash completion"),
                            ("zsh/site-functions/_dpbench", "#compdef dpbench"), ("fish/vendor_completions.d/dpbench.fish", "# fish completion")):
            self.assertTrue((self.prefix / "share" / file).read_text(encoding="utf-8").startswith(start), file)

    def test_a_build_without_dpbench_micro_can_be_installed(self):
        script = (BUILD / "cmake_install.cmake").read_text(encoding="utf-8")
        if "/bin/dpbench-micro" not in script:
            self.skipTest("dpbench-micro is not built here")
        without, prefix = self.root / "without_micro.cmake", self.root / "without_micro"
        without.write_text(script.replace(f"{BUILD}/bin/dpbench-micro", f"{BUILD}/bin/absent"), encoding="utf-8")
        run("cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P", without)
        self.assertIn("mnist-mlp", run(prefix / "bin/dpbench", "list"))

    def test_the_installed_report_command_finds_the_chart_scripts(self):
        golden = pathlib.Path(__file__).parents[1] / "golden/run-1.0.json"
        words = run("env", "-C", self.root, "DPBENCH_PYTHON=echo", self.prefix / "bin/dpbench", "report", golden, "--html", "x.html").split()
        self.assertEqual(pathlib.Path(words[1]), self.prefix / "share/dpbench/charts/report.py")
        for part in ("report.py", "requirements.txt", "page/template.html"):
            self.assertTrue((self.prefix / "share/dpbench/charts" / part).is_file(), part)


if __name__ == "__main__":
    unittest.main()
