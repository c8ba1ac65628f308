import itertools
from pathlib import Path

import pytest

from trimtab.replay.trace import TraceError, TraceRequest, read_trace

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def _write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_azure_rows_become_requests_from_zero_seconds(tmp_path: Path) -> None:
    path = _write(
        tmp_path, "a.csv",
        HEADER + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9305900,396,109\n",
    )  # fmt: skip
    first, second = read_trace(path)
    assert (first.arrival_s, first.prompt_tokens, first.output_tokens) == (0.0, 374, 44)
    assert second.arrival_s == pytest.approx(4.25)


def test_mooncake_rows_are_milliseconds(tmp_path: Path) -> None:
    row = '{"timestamp": %d, "input_length": 10, "output_length": 5, "hash_ids": [1]}\n'
    path = _write(tmp_path, "m.jsonl", row % 500 + row % 2500)
    assert read_trace(path)[1] == TraceRequest(2.0, 10, 5)


def test_own_rows_may_carry_their_prompt(tmp_path: Path) -> None:
    path = _write(
        tmp_path, "o.jsonl",
        '{"arrival_s": 0, "prompt": "abc", "output_tokens": 2}\n'
        '{"arrival_s": 1, "prompt_tokens": 7, "output_tokens": 3}\n',
    )  # fmt: skip
    first, second = read_trace(path)
    assert (first.prompt, first.prompt_tokens) == ("abc", 3)
    assert second == TraceRequest(1.0, 7, 3)


def test_rows_out_of_order_are_sorted_and_limit_keeps_the_earliest(tmp_path: Path) -> None:
    row = '{"arrival_s": %d, "prompt_tokens": %d, "output_tokens": 1}\n'
    path = _write(tmp_path, "o.jsonl", row % (9, 1) + row % (3, 2) + row % (5, 3))
    assert [r.prompt_tokens for r in read_trace(path, limit=2)] == [2, 3]


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.csv", "time,in,out\n", 1, "expected TIMESTAMP"),
        ("a.csv", HEADER + "2023-11-16 18:15:46,1\n", 2, "2 fields"),
        ("a.csv", HEADER + "yesterday,1,1\n", 2, "not a date"),
        ("a.csv", HEADER + "2023-11-16 18:15:46,-5,1\n", 2, "ContextTokens is '-5'"),
        ("a.csv", HEADER + "2023-11-16 18:15:46,1,x\n", 2, "GeneratedTokens is 'x'"),
        ("a.csv", HEADER, 1, "no requests"),
        ("m.jsonl", "{\n", 1, "not JSON"),
        ("m.jsonl", "[1]\n", 1, "not a JSON object"),
        ("m.jsonl", '{"timestamp": -1, "input_length": 1, "output_length": 1}\n', 1, "timestamp"),
        ("m.jsonl", '{"timestamp": 1, "input_length": true, "output_length": 1}\n', 1, "True"),
        ("m.jsonl", '{"timestamp": NaN, "input_length": 1, "output_length": 1}\n', 1, "nan"),
        ("o.jsonl", '{"arrival_s": 0, "tokens": 3}\n', 1, "unknown field 'tokens'"),
        ("o.jsonl", '{"arrival_s": 0, "prompt": "", "output_tokens": 1}\n', 1, "not empty"),
        ("o.txt", "x", 0, "unknown kind '.txt'"),
    ],
)
def test_a_malformed_trace_names_file_line_and_reason(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    path = _write(tmp_path, name, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert caught.value.line == line
    assert reason in caught.value.reason
    assert str(path) in str(caught.value)


def test_a_bad_last_row_fails_the_whole_trace_even_beyond_the_limit(tmp_path: Path) -> None:
    path = _write(
        tmp_path, "o.jsonl", '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\nx'
    )
    with pytest.raises(TraceError):
        read_trace(path, limit=1)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("relative", "rows"),
    [
        ("llm_traces_azure2023/azure_conv_w1.csv", 13828),
        ("llm_traces_mooncake/conversation_w1.jsonl", None),
    ],
)
def test_public_traces_are_read_whole(relative: str, rows: int | None) -> None:
    path = SHARED / relative
    if not path.is_file():
        pytest.skip(f"{relative} is not beside this checkout")
    requests = read_trace(path)
    assert rows in {None, len(requests)}
    assert requests[0].arrival_s == 0.0
    assert all(a.arrival_s <= b.arrival_s for a, b in itertools.pairwise(requests))
