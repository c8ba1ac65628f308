"""Numbers, times and changes as people read them. Pure; used as template filters."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from controlplane.actuator.action import Change, ChangeKind
from controlplane.policy.verdict import VerifyRow
from controlplane.slo.status import SloName, SloStatus

SHORT_HASH = 10
NOTHING = "–"
_SIGNS = {"tau": "τ", "cv": "CV", "psi": "PSI"}
"""Quantities without a unit of their own: their sign stands before the number."""
_SHARES = {"time": "of the time", "covered": "of the time covered"}
"""Ratios that are read in per cent, and of what."""
_LACKING = {
    "ttft": "TTFT", "tpot": "TPOT", "inter_token": "gaps between tokens",
    "queue_time": "time in queue", "prefill_tokens": "prompt tokens",
    "decode_tokens": "output tokens", "finished": "finished requests",
    "rejected": "rejected requests", "failed": "failed requests", "running": "running requests",
    "queued": "waiting requests", "kv_used": "use of the KV cache",
}  # fmt: skip
"""What a scrape is asked for (`scraping.names`), where the words are others."""
_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def utc(unix_seconds: float | None) -> str:
    """Date and time, always UTC."""
    if unix_seconds is None:
        return NOTHING
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(unix_seconds: float | None) -> str:
    """For the `datetime` attribute of `<time>`."""
    return "" if unix_seconds is None else datetime.fromtimestamp(unix_seconds, UTC).isoformat()


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return NOTHING
    whole = round(abs(seconds))
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"),
             (whole % 60, "s")]  # fmt: skip
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"


def latency(seconds: float | None) -> str:
    """A latency with three digits and the unit that fits it."""
    if seconds is None:
        return NOTHING
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1.0:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"


def percent(ratio: float | None) -> str:
    """A ratio in per cent; small ones keep two digits."""
    if ratio is None:
        return NOTHING
    value = 100.0 * ratio
    digits = 2 if abs(value) < 1 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} %" if value else "0 %"


def number(value: float | str | None) -> str:
    """A number with at most four digits, large ones grouped; text as it is."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}"


def short(content_hash: object) -> str:
    """The first digits of a content hash; anything else as it is."""
    text = NOTHING if content_hash is None else str(content_hash)
    return text[:SHORT_HASH] if len(text) == 64 else text


def brief(told: object) -> str:
    """A sentence with its content hashes shortened."""
    return _HASH.sub(lambda found: found[0][:SHORT_HASH], str(told))


def words(name: object) -> str:
    """A code name as words: `awaiting_approval` → "awaiting approval"."""
    return str(name).replace("_", " ")


def lacking(missing: Iterable[str]) -> str:
    """What the metrics of an observe-only engine do not have, as a list; empty for nothing."""
    return ", ".join(_LACKING.get(name, words(name)) for name in missing)


def slo_value(status: SloStatus) -> str:
    """What was measured: p99 for latencies, the ratio for overflow."""
    if status.slo is SloName.OVERFLOW:
        return percent(status.value)
    if status.value is None:
        return NOTHING
    return f"p99 {'> ' if status.value_is_more else ''}{latency(status.value)}"


def slo_objective(status: SloStatus) -> str:
    """The promise, e.g. "99 % under 200 ms"."""
    what = "of slices" if status.slo is SloName.OVERFLOW else "of requests"
    limit = percent(status.threshold) if status.slo is SloName.OVERFLOW else latency(
        status.threshold
    )  # fmt: skip
    return f"{100 * status.objective:g} % {what} under {limit}"


def in_unit(value: float | None, unit: str) -> str:
    """A finding's value in its unit."""
    if value is None:
        return NOTHING
    if unit == "seconds":
        return latency(value)
    if unit in _SHARES:
        return f"{percent(value)} {_SHARES[unit]}"
    if unit in _SIGNS:
        return f"{_SIGNS[unit]} {number(value)}"
    return number(value) if unit == "ratio" else f"{number(value)} {unit}"


def verify_value(row: VerifyRow, value: float | None) -> str:
    """A cell of the verify table: shares in per cent, losses and distances plain."""
    if value is None:
        return NOTHING
    plain = row.name in {"probe loss", "gate mass kept", "shares agree", "live bias"}
    return f"{value:.4f}" if plain else percent(value)


def change(of: Change) -> str:
    """What an action changes, in one phrase."""
    if of.kind is ChangeKind.CONFIG_ROLLBACK:
        return f"whole config → {short(of.after)}"
    if of.kind is ChangeKind.BIAS_ROLLBACK:
        layers = "" if of.layers is None else f" (layers {', '.join(map(str, of.layers))})"
        return f"router bias {short(of.before)} → {short(of.after)}{layers}"
    return f"{words(of.knob)} {short(of.before)} → {short(of.after)}"


FILTERS = {
    "utc": utc, "iso": iso, "duration": duration, "latency": latency, "percent": percent,
    "number": number, "short": short, "words": words, "brief": brief, "slo_value": slo_value,
    "slo_objective": slo_objective, "in_unit": in_unit, "change": change,
    "verify_value": verify_value, "lacking": lacking,
}  # fmt: skip
