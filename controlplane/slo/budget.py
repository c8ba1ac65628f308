"""What is left of an error budget. Pure."""

from controlplane.slo.status import ErrorBudget, SloState

_ROUNDING = 1e-9


def budget_remaining(bad: float, total: float, *, budget: float, state: SloState) -> float | None:
    """1 - bad ÷ total ÷ budget; None while nothing can be said.

    Nothing can be said of an SLO that is inconclusive, nor of so few events that a single bad one
    would be more than the whole budget: one slow request of an idle engine is not "-9,900 %". A
    breach is sure of itself (it has its own least n and a confidence bound): what it spent is said.

    Args:
        bad: events over the threshold.
        total: all events.
        budget: allowed bad ratio, 0 to 1.
        state: what was said of the SLO.
    """
    is_sure = state is SloState.BREACHED and total > 0
    if state is SloState.INCONCLUSIVE or not (is_sure or total * budget >= 1.0 - _ROUNDING):
        return None
    return 1.0 - bad / total / budget


def long_budget(
    bad: float, total: float, *, budget: float, state: SloState, seconds: float
) -> ErrorBudget | None:
    """The same over the days that are stored: too few events of late do not hide their verdict.

    Args:
        bad: events over the threshold.
        total: all events.
        budget: allowed bad ratio, 0 to 1.
        state: what was said of the SLO lately.
        seconds: how far back the events go.
    """
    sure = state if state is SloState.BREACHED else SloState.MET
    left = budget_remaining(bad, total, budget=budget, state=sure)
    return None if left is None else ErrorBudget(remaining_ratio=left, seconds=seconds)
