"""Multi-window burn: a tier fires only when both windows burn, and surely so.

Burn is bad ratio ÷ budget. A tier fires when burn exceeds its threshold over the short and the long
window, the long one holds at least `min_events`, and the lower bound of its bad ratio exceeds
threshold × budget. Below `min_events` the windows lengthen (up to `max_widen` times), and then the
tier is inconclusive: never good, never bad. Formula: reference, governance § 8.2.
"""

from contract.burn_windows import BurnTier
from controlplane.slo.counts import LatencyCounts
from controlplane.slo.proportion import lower_bound
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloState, TierStatus


def tier_status(
    tier: BurnTier,
    counts: LatencyCounts,
    at: float,
    *,
    budget: float,
    settings: SloSettings,
) -> TierStatus:
    """Judge one tier at time `at`."""
    widen, bad, total = _widened(tier, counts, at, settings)
    short_seconds, long_seconds = tier.short_seconds * widen, tier.long_seconds * widen
    short_bad, short_total = counts.count(short_seconds, at)
    burn_long = bad / total / budget if total else 0.0
    burn_short = short_bad / short_total / budget if short_total else 0.0
    low = lower_bound(bad, total, settings.confidence)
    over = burn_long > tier.burn and burn_short > tier.burn and low > tier.burn * budget
    if total < max(1, tier.min_events):
        state = SloState.INCONCLUSIVE
    elif over:
        state = SloState.BREACHED
    else:
        state = SloState.MET
    return TierStatus(
        tier=tier.name, state=state, short_seconds=short_seconds, long_seconds=long_seconds,
        burn_short=burn_short, burn_long=burn_long, bad=bad, total=total, bad_ratio_low=low,
        threshold_burn=tier.burn,
    )  # fmt: skip


def _widened(
    tier: BurnTier, counts: LatencyCounts, at: float, settings: SloSettings
) -> tuple[int, int, int]:
    bad, total, widen = 0, 0, 1
    for widen in (1, 2, 5, 10):
        if widen > settings.max_widen:
            break
        bad, total = counts.count(tier.long_seconds * widen, at)
        if total >= max(1, tier.min_events):
            return widen, bad, total
    return 1, *counts.count(tier.long_seconds, at)
