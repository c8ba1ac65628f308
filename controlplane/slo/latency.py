"""TTFT and TPOT as occurrences: requests below the threshold, by exact histogram counts."""

from collections.abc import Sequence

from contract.burn_windows import Consumer
from contract.frame import HISTOGRAM_BOUNDS
from controlplane.history.latency import Quantile, quantile
from controlplane.history.observed import exact_bounds
from controlplane.history.window import EngineWindow
from controlplane.slo.budget import budget_remaining, long_budget
from controlplane.slo.burn import tier_status
from controlplane.slo.counts import LatencyCounts
from controlplane.slo.histogram import count_over, merged
from controlplane.slo.older import NOTHING, OlderCounts
from controlplane.slo.settings import LatencyObjective, SloSettings
from controlplane.slo.status import ErrorBudget, SloName, SloState, SloStatus, TierStatus

CALM_PARTS = 5


def bad_and_total(
    windows: Sequence[EngineWindow],
    name: str,
    threshold: float,
    *,
    generations: Sequence[int] | None = None,
) -> tuple[int, int]:
    """Requests over the threshold, and all, of a latency histogram (`ttft`, `tpot`)."""
    cells = merged(windows, name, generations=generations)
    return count_over(cells, HISTOGRAM_BOUNDS[name], threshold), int(cells.sum())


def latency_status(
    slo: SloName,
    objective: LatencyObjective,
    windows: Sequence[EngineWindow],
    at: float,
    settings: SloSettings,
    older: OlderCounts = NOTHING,
) -> SloStatus:
    """The state of one latency SLO; `value` is the p99 over the governor's shortest long window.

    The governor's tiers count the windows alone: it acts on what is recent. The others, and the
    error budget, count the older intervals too.
    """
    long = LatencyCounts.of(windows, slo.value, objective.threshold_seconds, older)
    counts = long.after(len(older.starts))
    tiers = tuple(
        tier_status(
            tier, counts if tier.consumer is Consumer.GOVERNOR else long, at,
            budget=objective.budget, settings=settings,
        )
        for tier in settings.tiers
    )  # fmt: skip
    governed = _governed(tiers, settings)
    state = _state(governed)
    fastest = min(governed, key=lambda tier: tier.long_seconds)
    cells = counts.cells_in(fastest.long_seconds, at)
    exact = exact_bounds(windows[-1].header, slo.value) if windows else None
    p99 = quantile(cells, HISTOGRAM_BOUNDS[slo.value], 0.99, exact=exact)
    value = None if p99 is None else p99.at_least
    bad, total = counts.all()
    room = None if value is None else 1.0 - value / objective.threshold_seconds
    interpolated = _is_interpolated(slo, objective, windows)
    message = _message(slo, state, fastest, objective, p99)
    if interpolated and fastest.total:
        message += " Interpolated: the engine's own histogram has no bound at the threshold."
    return SloStatus(
        slo=slo, state=state, objective=objective.target, threshold=objective.threshold_seconds,
        value=value, value_is_more=p99 is not None and p99.value is None, room_ratio=room,
        budget_remaining_ratio=budget_remaining(
            bad, total, budget=objective.budget, state=state
        ),
        budget=_budget(long, at, objective, settings, state),
        n=fastest.total, tiers=tiers, message=message, interpolated=interpolated,
        calm=state is SloState.MET and _is_calm(counts, objective, at, settings),
    )  # fmt: skip


def _budget(
    counts: LatencyCounts,
    at: float,
    objective: LatencyObjective,
    settings: SloSettings,
    state: SloState,
) -> ErrorBudget | None:
    bad, total = counts.count(settings.budget_seconds, at)
    first, _ = counts.windows_in(settings.budget_seconds, at)
    held = at - counts.middles[first] if total else 0.0
    return long_budget(bad, total, budget=objective.budget, state=state, seconds=held)


def _is_interpolated(
    slo: SloName, objective: LatencyObjective, windows: Sequence[EngineWindow]
) -> bool:
    """Whether the newest window's counts at the threshold are not exact."""
    exact = exact_bounds(windows[-1].header, slo.value) if windows else None
    return exact is not None and objective.threshold_seconds not in exact


def _governed(tiers: Sequence[TierStatus], settings: SloSettings) -> list[TierStatus]:
    names = {tier.name for tier in settings.tiers if tier.consumer is Consumer.GOVERNOR}
    return [tier for tier in tiers if tier.tier in names]


def _state(governed: Sequence[TierStatus]) -> SloState:
    states = {tier.state for tier in governed}
    for state in (SloState.BREACHED, SloState.MET):
        if state in states:
            return state
    return SloState.INCONCLUSIVE


def _is_calm(
    counts: LatencyCounts, objective: LatencyObjective, at: float, settings: SloSettings
) -> bool:
    """Burn at most half the gentlest governor tier over the calm time and in each fifth of it.

    One bad request is never held against it: in a short part it would be more than any budget.
    """
    governor = [tier for tier in settings.tiers if tier.consumer is Consumer.GOVERNOR]
    limit = min(tier.burn for tier in governor) / 2.0 * objective.budget
    needed = min(tier.min_events for tier in governor)
    part = settings.relax_seconds / CALM_PARTS
    seen, over = 0, 0
    for index in range(CALM_PARTS):
        first, last = counts.windows_in(part, at - index * part)
        bad, total = counts.count(part, at - index * part)
        if first == last or bad > max(1.0, limit * total):
            return False
        seen += total
        over += bad
    return seen >= needed and over <= max(1.0, limit * seen)


def _message(
    slo: SloName,
    state: SloState,
    tier: TierStatus,
    objective: LatencyObjective,
    p99: Quantile | None,
) -> str:
    limit = f"{objective.threshold_seconds * 1000:.0f} ms"
    if p99 is None or tier.total == 0:
        return f"No request finished a {slo.upper()} measurement in {tier.long_seconds} s."
    told = (
        f"{tier.bad} of {tier.total} requests over {limit} in {tier.long_seconds} s "
        f"(p99 {'> ' if p99.value is None else ''}{p99.at_least * 1000:.0f} ms)"
    )
    if state is SloState.INCONCLUSIVE:
        return f"{told}: too few to judge."
    return f"{told}."
