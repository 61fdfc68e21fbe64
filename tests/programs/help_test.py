"""help_test.py DPBENCH: tests the commands' help, the man page, the shell completions, the committed reference page
generated from them, and the table of a model's parameters."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

DPBENCH = sys.argv.pop()
ROOT = pathlib.Path(__file__).parents[2]


def dpbench(*words, code=0, **variables):
    done = subprocess.run([DPBENCH, *words], text=True, capture_output=True, check=False,
                          env={name: text for name, text in os.environ.items() if name != "COLUMNS"} | variables)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def commands():
    return re.findall(r"^## (?!Exit|Environment)(\w+)$", dpbench("help", "--as", "markdown"), re.M)


def complete(*words):
    """Returns the completions that bash offers for the last of these words."""
    script = """source /dev/stdin <<< "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dpbench; printf '%s\\n' "${COMPREPLY[@]}\""""
    environment = {"SCRIPT": dpbench("help", "--as", "bash"), "PATH": f"{pathlib.Path(DPBENCH).parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script, "bash", *words], text=True, capture_output=True, check=True, env=environment)
    return done.stdout.split()


class Help(unittest.TestCase):
    def test_help_command_prints_the_same_as_the_help_flag(self):
        for command in commands():
            self.assertEqual(dpbench("help", command), dpbench(command, "--help"))
        self.assertEqual(dpbench("help"), dpbench("--help"))

    def test_help_wraps_at_the_width_in_the_variable_columns_except_commands_to_copy(self):
        for command in commands():
            whole = dpbench("help", command)
            for width in (80, 50):
                with self.subTest(command=command, width=width):
                    folded = dpbench("help", command, COLUMNS=str(width))
                    self.assertEqual(folded.split(), whole.split())
                    self.assertEqual([line for line in folded.splitlines()
                                      if len(line) > width and not line.startswith("  dpbench ")], [])

    def test_help_refuses_unknown_commands_unknown_formats_and_a_command_with_a_format(self):
        self.assertIn("'frob'", dpbench("help", "frob", code=2))
        self.assertIn("--as", dpbench("help", "run", "--as", "man", code=2))
        self.assertIn("'html'", dpbench("help", "--as", "html", code=2))

    def test_man_page_completions_and_reference_have_every_flag(self):
        flags = {flag for command in commands() for flag in re.findall(r"^ +(?:-\w,)?--([\w-]+)", dpbench("help", command), re.M)}
        self.assertGreater(len(flags), 60)
        man = dpbench("help", "--as", "man").replace("\\-", "-")
        texts = {"man": man, **{form: dpbench("help", "--as", form) for form in ("markdown", "bash", "zsh", "fish")}}
        for form, text in texts.items():
            for flag in flags:
                self.assertIn(f"-l {flag} " if form == "fish" else f"--{flag}", text, form)

    def test_the_reference_documents_in_git_equal_the_output_of_help_and_list(self):
        self.assertEqual((ROOT / "harness/commands.md").read_text(encoding="utf-8"), dpbench("help", "--as", "markdown"))
        self.assertEqual((ROOT / "strategies/reference.md").read_text(encoding="utf-8"), dpbench("list", "-o", "markdown"))

    def test_examples_of_commands_with_a_dry_run_name_only_flags_and_values_that_exist(self):
        tried = 0
        for command in commands():
            text = dpbench("help", command)
            listed = re.findall(r"^  dpbench ?(.*?)(?:   .*)?$", text.partition("Examples:\n")[2].partition("\n\n")[0], re.M)
            for words in [example.split() for example in listed] if "--dry-run" in text else ():
                own = words[:1] == [command] or command == "run" and words[:1] != ["report"]
                if not own or any("plugin" in word or word == "--base" for word in words):  # paths that do not exist here
                    continue
                with self.subTest(words=words):
                    dpbench(*["--cpus" if word == "--gpus" else word for word in words], "--dry-run",
                            *["--memory", "1GiB"] * ("--find-batch" in words))
                tried += 1
        self.assertGreater(tried, 8)

    def test_bash_completes_commands_flags_and_values(self):
        self.assertEqual(complete("dpbench", "comp"), ["compare"])
        self.assertEqual(complete("dpbench", "compare", "--fail"), ["--fail-on"])
        self.assertEqual(complete("dpbench", "--launc"), ["--launches", "--launcher"])
        self.assertEqual(complete("dpbench", "run", "--scaling", ""), ["strong", "weak"])
        self.assertEqual(complete("dpbench", "--strategy", "dd"), ["ddp"])
        self.assertEqual(complete("dpbench", "--strategy", "dp,dd"), ["dp,ddp"])
        self.assertEqual(complete("dpbench", "list", "wor"), ["workloads"])
        self.assertEqual(sorted(complete("dpbench", "check", "--junit", "/etc/host")), sorted(map(str, pathlib.Path("/etc").glob("host*"))))


class Parameters(unittest.TestCase):
    def test_list_prints_the_parameters_of_a_model_in_every_format(self):
        words = ("list", "gpt", "--parameters", "--model", "tiny")
        tied = r"model\.embed_tokens\.weight +257 x 18 +model\.embed_tokens, lm_head +root +cut in dimension 0 +-$"
        self.assertRegex(dpbench(*words), re.compile(tied, re.M))
        self.assertTrue(dpbench(*words, "-o", "markdown").startswith("| PARAMETER | SHAPE | BLOCKS | UNIT OF fsdp |"))
        self.assertEqual(json.loads(dpbench(*words, "-o", "json"))[0]["sizes"], [257, 18])
        self.assertRegex(dpbench("list", "mnist-mlp", "--parameters"), r"n\.1\.weight +128 x 784 +n\.1 +n\.1 ")

    def test_list_refuses_parameters_without_a_workload_and_models_that_do_not_exist(self):
        for words, said in ((("list", "ddp", "--parameters"), "gpt"), (("list", "--parameters"), "mnist-mlp"),
                            (("list", "gpt", "--model", "tiny"), "--parameters"), (("list", "gpt", "--parameters", "--model", "big"), "'big'")):
            with self.subTest(words=words):
                self.assertIn(said, dpbench(*words, code=2))


unittest.main(argv=sys.argv[:1])
