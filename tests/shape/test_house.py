"""The commands that README, Makefile and .ci/run name exist."""

import importlib
import os
import pkgutil
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import trimtab.commands
from trimtab.cli import COMMANDS

ROOT = Path(__file__).parents[2]
MODULES = [module.name for module in pkgutil.iter_modules(trimtab.commands.__path__)]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_ci_runs_make_targets_that_exist():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    named = set(re.findall(r"^make ([a-z-]+)", script.read_text(), re.MULTILINE))
    assert named
    assert named <= make_targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_exist(document):
    text = document.read_text()
    made = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.MULTILINE))
    called = set(re.findall(r"(?:^|`)trimtab ([a-z][a-z-]*)", text, re.MULTILINE))
    assert made <= make_targets()
    assert called <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(set(MODULES) & set(COMMANDS)))
def test_every_command_shows_an_example(name):
    command = importlib.import_module(f"trimtab.commands.{name}").command
    assert "xample" in "".join(help_texts(command)), f"trimtab {name} --help has no example"


def help_texts(command: click.Command) -> list[str]:
    shown = CliRunner().invoke(command, ["--help"])
    assert shown.exit_code == 0
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [shown.output, *(text for one in below for text in help_texts(one))]


def test_every_make_target_explains_itself():
    text = (ROOT / "Makefile").read_text()
    (line,) = re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    phony = set(re.findall(r"[a-z-]+", line))
    explained = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert phony == explained
