"""Request traces: Azure-2023 csv, Mooncake jsonl, and our own jsonl, read whole before use.

Own rows are objects, `{"arrival_s": 0.5, "prompt_tokens": 90, "output_tokens": 40}`,
optionally with `"prompt": "text"`, whose length in bytes then replaces `prompt_tokens`.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

MAX_TOKENS_A_REQUEST = 10_000_000
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


class TraceError(ValueError):
    """A trace that cannot be replayed: file, line (0 is the file itself) and reason."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}" if line else f"{path}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One arrival: seconds from the start of the trace, and how many tokens go in and out."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prompt: str | None = None


def read_trace(path: Path, limit: int | None = None) -> list[TraceRequest]:
    """All requests of a trace, sorted by arrival, the first one at 0 s.

    Args:
        path: a `.csv` (Azure 2023) or `.jsonl` (Mooncake, or our own) file.
        limit: keep the first so many requests; every row is checked all the same.

    Raises:
        TraceError: the file is missing, empty, of an unknown kind, or has a malformed row.
    """
    if not path.is_file():
        raise TraceError(path, 0, "there is no such file")
    readers: dict[str, Callable[[Path], Iterator[TraceRequest]]] = {
        ".csv": _read_azure,
        ".jsonl": _read_jsonl,
    }
    reader = readers.get(path.suffix)
    if reader is None:
        raise TraceError(path, 0, f"unknown kind {path.suffix!r}; use .csv or .jsonl")
    try:
        requests = sorted(reader(path), key=lambda request: request.arrival_s)
    except UnicodeDecodeError as error:
        raise TraceError(path, 0, f"not UTF-8 text: {error.reason}") from None
    if not requests:
        raise TraceError(path, 1, "the trace has no requests")
    start = requests[0].arrival_s
    shifted = [
        TraceRequest(r.arrival_s - start, r.prompt_tokens, r.output_tokens, r.prompt)
        for r in requests
    ]
    return shifted[:limit]


def _read_azure(path: Path) -> Iterator[TraceRequest]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = tuple(next(rows, ()))
        if header != AZURE_COLUMNS:
            expected = ",".join(AZURE_COLUMNS)
            raise TraceError(path, 1, f"columns are {','.join(header)!r}, expected {expected}")
        for row in rows:
            line = rows.line_num
            if len(row) != len(AZURE_COLUMNS):
                raise TraceError(path, line, f"{len(row)} fields, expected {len(AZURE_COLUMNS)}")
            yield TraceRequest(
                arrival_s=_timestamp(path, line, row[0]),
                prompt_tokens=_tokens(path, line, "ContextTokens", row[1]),
                output_tokens=_tokens(path, line, "GeneratedTokens", row[2]),
            )


def _read_jsonl(path: Path) -> Iterator[TraceRequest]:
    with path.open(encoding="utf-8") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except ValueError as error:
                raise TraceError(path, line, f"not JSON: {error}") from None
            if not isinstance(row, dict):
                raise TraceError(path, line, "not a JSON object")
            yield _mooncake(path, line, row) if "timestamp" in row else _own(path, line, row)


def _mooncake(path: Path, line: int, row: dict[str, Any]) -> TraceRequest:
    return TraceRequest(
        arrival_s=_seconds(path, line, "timestamp", row.get("timestamp")) / 1000.0,
        prompt_tokens=_tokens(path, line, "input_length", row.get("input_length")),
        output_tokens=_tokens(path, line, "output_length", row.get("output_length")),
    )


def _own(path: Path, line: int, row: dict[str, Any]) -> TraceRequest:
    known = {"arrival_s", "prompt_tokens", "output_tokens", "prompt"}
    unknown = sorted(set(row) - known)
    if unknown:
        raise TraceError(path, line, f"unknown field {unknown[0]!r}; known: {sorted(known)}")
    prompt = row.get("prompt")
    if prompt is not None and (not isinstance(prompt, str) or not prompt):
        raise TraceError(path, line, "prompt must be a text that is not empty")
    length = len(prompt.encode()) if prompt is not None else row.get("prompt_tokens")
    return TraceRequest(
        arrival_s=_seconds(path, line, "arrival_s", row.get("arrival_s")),
        prompt_tokens=_tokens(path, line, "prompt_tokens", length),
        output_tokens=_tokens(path, line, "output_tokens", row.get("output_tokens")),
        prompt=prompt,
    )


def _timestamp(path: Path, line: int, text: str) -> float:
    whole, _, fraction = text.strip().partition(".")
    try:
        moment = datetime.fromisoformat(f"{whole}+00:00")
        return moment.timestamp() + float(f"0.{fraction or 0}")
    except ValueError:
        raise TraceError(path, line, f"TIMESTAMP {text!r} is not a date and time") from None


def _seconds(path: Path, line: int, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError(path, line, f"{name} is {value!r}, expected a number")
    if not math.isfinite(value) or value < 0:
        raise TraceError(path, line, f"{name} is {value!r}, expected at least 0")
    return float(value)


def _tokens(path: Path, line: int, name: str, value: object) -> int:
    try:
        count = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else -1
    except ValueError:
        count = -1
    if not 0 <= count <= MAX_TOKENS_A_REQUEST:
        bound = f"a whole number from 0 to {MAX_TOKENS_A_REQUEST}"
        raise TraceError(path, line, f"{name} is {value!r}, expected {bound}")
    return count
