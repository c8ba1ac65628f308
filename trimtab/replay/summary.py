"""What a replay saw, in one table: requests, errors, and the quantiles of the latencies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from trimtab.replay.client import RequestResult


@dataclass(frozen=True, slots=True)
class Quantiles:
    """p50, p90 and p99 in seconds over n values; None without values."""

    p50: float | None
    p90: float | None
    p99: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a replay or of a part of it."""

    requests: int
    errors: int
    reasons: dict[str, int]
    ttft: Quantiles
    tpot: Quantiles
    output_tokens_per_s: float


def summarise(results: Sequence[RequestResult]) -> Summary:
    """Totals and quantiles of some results."""
    failed = [result for result in results if result.error is not None]
    tokens = sum(result.output_tokens for result in results)
    if results:
        start = min(result.due_s for result in results)
        span = max(result.due_s + result.duration_s for result in results) - start
    else:
        span = 0.0
    reasons = Counter(f"{result.status}: {(result.error or '')[:80]}" for result in failed)
    return Summary(
        requests=len(results),
        errors=len(failed),
        reasons=dict(reasons.most_common(5)),
        ttft=_quantiles([r.ttft_s for r in results if r.ttft_s is not None]),
        tpot=_quantiles([r.tpot_s for r in results if r.tpot_s is not None]),
        output_tokens_per_s=tokens / span if span > 0 else 0.0,
    )


def table(summary: Summary) -> Table:
    """The summary as a table for the terminal."""
    view = Table(title=f"{summary.requests} requests, {summary.errors} errors")
    for heading in ("", "p50 ms", "p90 ms", "p99 ms", "n"):
        view.add_column(heading, justify="right")
    for name, values in (("TTFT", summary.ttft), ("TPOT", summary.tpot)):
        cells = [_milliseconds(v) for v in (values.p50, values.p90, values.p99)]
        view.add_row(name, *cells, str(values.n))
    view.caption = f"{summary.output_tokens_per_s:.0f} output tokens/s"
    return view


def _quantiles(values: Sequence[float]) -> Quantiles:
    if not values:
        return Quantiles(None, None, None, 0)
    p50, p90, p99 = (float(q) for q in np.quantile(values, (0.5, 0.9, 0.99)))
    return Quantiles(p50, p90, p99, len(values))


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"
