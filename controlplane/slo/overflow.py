"""Overflow as timeslices: the ratio before reroute, counted per step by the engine.

A slice is over when more than the threshold of its assignments overflow; a slice with too few
assignments could not say, and is neither good nor bad.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.history.window import EngineWindow, Sums
from controlplane.slo.budget import budget_remaining, long_budget
from controlplane.slo.older import NOTHING, OlderCounts
from controlplane.slo.settings import OverflowObjective, SloSettings
from controlplane.slo.status import ErrorBudget, SloName, SloState, SloStatus

Floats = npt.NDArray[np.float64]
COMPLETE = 0.8


@dataclass(frozen=True, slots=True)
class Slice:
    """One timeslice: seconds it spans, overflow and assignments over all layers."""

    seconds: float
    overflow: int
    assignments: int
    worst_layer: int | None = None
    worst_ratio: float = 0.0

    @property
    def ratio(self) -> float:
        """Overflow ÷ assignments, 0 when there were none."""
        return self.overflow / self.assignments if self.assignments else 0.0


def cut(windows: Sequence[EngineWindow], slice_seconds: float) -> list[Slice]:
    """Group consecutive windows into slices on the clock's grid; incomplete ones are left out.

    A window longer than a slice is one slice.
    """
    told: list[tuple[EngineWindow, Sums, Sums]] = []
    seconds: dict[int, float] = {}
    for window in windows:
        at = _slot(window, slice_seconds)
        seconds[at] = seconds.get(at, 0.0) + window.end - window.start
        overflow, assigned = window.arrays.get("overflow"), window.assigned
        if overflow is not None and assigned is not None:
            told.append((window, overflow, assigned))
    if told:  # of a model with other layers there are no slices to compare
        shape = (told[-1][0].header.layers,)
        told = [one for one in told if one[1].shape == one[2].shape == shape != (0,)]
    order = {slot: row for row, slot in enumerate(sorted(seconds))}
    sums = None
    if told:
        sums = np.zeros((2, len(order), len(told[0][1])))
        rows = [order[_slot(window, slice_seconds)] for window, _, _ in told]
        np.add.at(sums[0], rows, np.stack([overflow for _, overflow, _ in told]))
        np.add.at(sums[1], rows, np.stack([assigned for _, _, assigned in told]))
    lengths = [seconds[slot] for slot in order]
    slices = _slices(lengths, sums)
    return [s for s in slices if s.seconds >= COMPLETE * slice_seconds]


def _slot(window: EngineWindow, slice_seconds: float) -> int:
    return int((window.start + 1e-6) // slice_seconds)


def _slices(seconds: Sequence[float], sums: Floats | None) -> list[Slice]:
    """Slices of these lengths from overflow and assignments [2, slices, L]."""
    if sums is None:
        return [Slice(seconds=length, overflow=0, assignments=0) for length in seconds]
    overflow, assigned = sums
    ratios = overflow / np.maximum(assigned, 1.0)
    worst = ratios.argmax(axis=1)
    totals = zip(
        seconds, overflow.sum(axis=1), assigned.sum(axis=1), worst, ratios.max(axis=1), strict=True
    )
    return [
        Slice(length, int(over), int(total), int(layer), float(ratio)) if total
        else Slice(seconds=length, overflow=0, assignments=0)
        for length, over, total, layer, ratio in totals
    ]  # fmt: skip


def judge(ratios: Sequence[float | None], objective: OverflowObjective) -> SloState:
    """State from the newest slices' ratios, None where a slice could not say.

    Met only when the unknown slices could not turn it into a breach.
    """
    recent = list(ratios)[-objective.slices_seen :]
    over = sum(1 for ratio in recent if ratio is not None and ratio > objective.threshold)
    unknown = objective.slices_seen - sum(1 for ratio in recent if ratio is not None)
    if over >= objective.slices_needed:
        return SloState.BREACHED
    if over + unknown >= objective.slices_needed:
        return SloState.INCONCLUSIVE
    return SloState.MET


def overflow_status(
    windows: Sequence[EngineWindow],
    at: float,
    settings: SloSettings,
    older: OlderCounts = NOTHING,
) -> SloStatus:
    """The state of the overflow SLO; `value` is the ratio over the judged slices together.

    The error budget counts the older intervals too, each as one slice of its own length.
    """
    objective = settings.overflow
    older = older.since(at - settings.budget_seconds)
    slices = cut(windows, objective.slice_seconds)
    ratios = [s.ratio if s.assignments >= objective.min_assignments else None for s in slices]
    recent = slices[-objective.slices_seen :]
    told = tuple(ratios[-objective.slices_seen :])
    state = judge(ratios, objective)
    assignments = sum(s.assignments for s in recent)
    value = sum(s.overflow for s in recent) / assignments if assignments else None
    known = [ratio for ratio in ratios if ratio is not None]
    bad = sum(1 for ratio in known if ratio > objective.threshold)
    return SloStatus(
        slo=SloName.OVERFLOW, state=state, objective=objective.target,
        threshold=objective.threshold, value=value,
        room_ratio=None if value is None else 1.0 - value / objective.threshold,
        budget_remaining_ratio=budget_remaining(
            bad, len(known), budget=1.0 - objective.target, state=state
        ),
        budget=_budget(slices, ratios, older, at, objective, state),
        n=assignments, slices=told, message=_message(recent, told, objective, state),
        calm=_is_calm(ratios, slices, settings),
    )  # fmt: skip


def _budget(
    slices: Sequence[Slice],
    ratios: Sequence[float | None],
    older: OlderCounts,
    at: float,
    objective: OverflowObjective,
    state: SloState,
) -> ErrorBudget | None:
    """In numbers of slices: an older interval counts as many as its length holds."""
    judged = older.assignments >= objective.min_assignments
    lengths = (older.ends - older.starts)[judged] / objective.slice_seconds
    over = (older.overflow / np.maximum(older.assignments, 1.0))[judged] > objective.threshold
    recent = [ratio for ratio in ratios if ratio is not None]
    total = float(lengths.sum()) + len(recent)
    bad = float(lengths[over].sum()) + sum(ratio > objective.threshold for ratio in recent)
    held = at - older.starts[0] if len(older.starts) else sum(s.seconds for s in slices)
    return long_budget(bad, total, budget=1.0 - objective.target, state=state, seconds=held)


def _is_calm(
    ratios: Sequence[float | None], slices: Sequence[Slice], settings: SloSettings
) -> bool:
    """Every slice of the calm time was judged good, and they cover it."""
    seconds = 0.0
    for ratio, piece in zip(reversed(ratios), reversed(slices), strict=True):
        if seconds >= settings.relax_seconds:
            break
        if ratio is None or ratio > settings.overflow.threshold:
            return False
        seconds += piece.seconds
    return seconds >= settings.relax_seconds


def _message(
    recent: Sequence[Slice],
    ratios: Sequence[float | None],
    objective: OverflowObjective,
    state: SloState,
) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    over = sum(1 for ratio in known if ratio > objective.threshold)
    told = (
        f"{over} of {len(known)} judged slices of {objective.slice_seconds:g} s over "
        f"{objective.threshold:.0%} overflow"
    )
    worst = max(recent, key=lambda s: s.worst_ratio, default=None)
    if worst is not None and worst.worst_layer is not None:
        told += f"; worst layer {worst.worst_layer} at {worst.worst_ratio:.1%}"
    if state is SloState.INCONCLUSIVE:
        return f"{told}: too few assignments to judge (slices need {objective.min_assignments})."
    return f"{told}."
