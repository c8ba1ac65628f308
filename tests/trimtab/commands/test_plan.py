"""`trimtab plan`: tables, JSON, picture, and one sentence on bad input."""

import json

import pytest
from click.testing import CliRunner

from trimtab.commands.plan import command


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    files = ["--json", str(folder / "p.json"), "--picture", str(folder / "p.svg")]
    small = ["--preset", "qwen3-30b-a3b", "--gpus", "8", "--redundant", "0", *files]
    return CliRunner().invoke(command, small), folder


def test_it_prints_layouts_memory_curve_and_the_step_out_of_the_domain(made):
    result, _ = made
    assert result.exit_code == 0, result.output
    for words in ("predicted", "GB of a card", "minimum", "Leaving the domain of 8 cards"):
        assert words in result.output


def test_the_json_says_what_is_fitted_and_what_assumed(made):
    _, folder = made
    body = json.loads((folder / "p.json").read_text())
    assert body["basis"]["all_to_all"] == "fitted"
    assert body["basis"]["expert skew"] == "assumed"
    assert body["plan"]["layouts"][0]["tpot"] > 0
    assert body["u_curve"]["minimum_ranks"] in {p["ranks"] for p in body["u_curve"]["points"]}


def test_the_picture_is_written(made):
    _, folder = made
    assert "<svg" in (folder / "p.svg").read_text()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--preset", "gpt-5"], "gpt-5"), (["--gpus", "0"], "0 is not in the range"),
        (["--preset", "olmoe", "--gpus", "8", "--picture", "a.pdf"], "must end in .png or .svg"),
    ],
)  # fmt: skip
def test_bad_input_exits_2_with_one_sentence(flags, words):
    result = CliRunner().invoke(command, flags)
    assert result.exit_code == 2
    assert words in result.output
