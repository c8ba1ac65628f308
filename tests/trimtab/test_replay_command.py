from pathlib import Path

from click.testing import CliRunner

from trimtab.cli import main


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
