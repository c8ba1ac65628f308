"""The options of `trimtab train`; a whole run is `tests/engine/model/training`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.commands.train import command


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "Example: trimtab train" in result.output


@pytest.mark.parametrize(
    "arguments", [["--steps", "0"], ["--minutes", "0"], ["--steps", "many"], ["--seed", "x"]]
)
def test_bad_input_exits_2_and_names_the_option(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "file")])
    assert result.exit_code == 2


def test_a_folder_that_cannot_be_made_is_said_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "file" / "deeper")])
    assert result.exit_code == 2
    assert "cannot be created" in result.output


def test_what_is_there_is_not_trained_over(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    result = CliRunner().invoke(command, ["--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not empty" in result.output
