from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from trimtab.cli import main
from trimtab.replay.run import explain


def test_a_bad_trace_exits_2_with_one_sentence_and_sends_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "bad.jsonl"
    trace.write_text("nonsense\n")
    result = CliRunner().invoke(
        main, ["replay", "--trace", str(trace), "--url", "http://127.0.0.1:9"]
    )
    assert result.exit_code == 2
    assert "line 1: not JSON" in result.output
    assert "Nothing was sent" in result.output


def test_an_unreachable_engine_exits_1_and_says_what_to_do(tmp_path: Path) -> None:
    trace = tmp_path / "own.jsonl"
    trace.write_text('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n')
    result = CliRunner().invoke(
        main, ["replay", "--trace", str(trace), "--url", "http://127.0.0.1:9"]
    )
    assert result.exit_code == 1
    assert "is the engine running?" in result.output


def test_the_help_names_the_variable_of_the_token() -> None:
    assert "TRIMTAB_INFERENCE_TOKEN" in CliRunner().invoke(main, ["replay", "--help"]).output
    assert "TRIMTAB_TOKEN" in CliRunner().invoke(main, ["backtest", "--help"]).output


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "it wants a token of role inference: pass --token or set TRIMTAB_INFERENCE_TOKEN"),
        ("x", "it does not know the token given by --token or TRIMTAB_INFERENCE_TOKEN"),
    ],
)
def test_a_refused_token_is_told_by_where_it_came_from(token: str | None, words: str) -> None:
    request = httpx.Request("GET", "http://engine/v1/models")
    error = httpx.HTTPStatusError("", request=request, response=httpx.Response(401))
    assert explain(error, "http://engine", token).startswith(f"http://engine answered 401: {words}")
