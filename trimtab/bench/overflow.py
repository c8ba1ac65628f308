"""Overflow policies side by side, from our code, beside the published simulation.

128 experts, top-8, 1,024 tokens a step, sigmoid scores of N(0, 1) logits. Skew is a constant added
to an expert's logits; its strength is searched so that the load has the published coefficient of
variation. cap_min is 1. Dropped is what no expert took, in percent of all assignments; score is the
replacement's over the original's.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import torch
from torch import Tensor

from contract.runtime_config import OverflowPolicy
from engine.moe.capacity import slots
from engine.moe.overflow import POLICIES, Contest
from trimtab.bench.figure import Figure

EXPERTS, TOP_K, TOKENS = 128, 8, 1024
STEPS = 12
HOT_SHARE = 0.16
CANDIDATES = 8


class Skew(StrEnum):
    """Which experts are popular."""

    LOGNORMAL = "lognormal"
    HOT_SPREAD = "hot_spread"
    HOT_TOGETHER = "hot_together"


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the published table: percent dropped, and replacement ÷ original score.

    Attributes:
        name: stable part of the figures' names.
        capacity_factor: C.
        skew: who is popular; hot ones are 16 % of the experts, spread or with neighbouring ids.
        load_cv: coefficient of variation of expert load.
        overflow: published, percent, before any reroute.
        adjacent, next_best, least_loaded: published, percent dropped and score ratio by policy.
    """

    name: str
    capacity_factor: str
    skew: Skew
    load_cv: float
    overflow: float
    adjacent: tuple[float, float]
    next_best: tuple[float, float]
    least_loaded: tuple[float, float]

    @property
    def published(self) -> dict[OverflowPolicy, tuple[float, float]]:
        """The published figures by policy."""
        return {
            OverflowPolicy.REROUTE_ID_ADJACENT: self.adjacent,
            OverflowPolicy.REROUTE_NEXT_BEST: self.next_best,
            OverflowPolicy.REROUTE_LEAST_LOADED: self.least_loaded,
        }


CASES = (
    Case("mild", "1.25", Skew.LOGNORMAL, 0.31, 4.38, (0.76, 0.54), (0.0, 0.97), (0.0, 0.53)),
    Case("strong", "1.25", Skew.LOGNORMAL, 0.60, 14.95, (5.21, 0.52), (0.84, 0.95), (0.0, 0.47)),
    Case("spread", "1.25", Skew.HOT_SPREAD, 0.80, 24.66, (10.75, 0.56), (0.09, 0.95), (0.0, 0.56)),
    Case("together", "1.25", Skew.HOT_TOGETHER, 0.79, 24.3, (23.54, 0.6), (0.09, 0.95), (0, 0.55)),
    Case("incident", "2", Skew.HOT_TOGETHER, 1.40, 34.86, (32.32, 0.55), (2.23, 0.95), (0.0, 0.55)),
)  # fmt: skip


def run() -> list[Figure]:
    """Every case: overflow before reroute, then what each policy leaves dropped, and at what score.

    Figures are percentages of assignments, the median over steps with the range.
    """
    return [figure for case in CASES for figure in _case(case)]


def _case(case: Case) -> list[Figure]:
    random = torch.Generator().manual_seed(7)
    popularity = _popularity(case, random)
    offset = popularity * _strength(popularity, case.load_cv)
    steps = [_scores(offset, random) for _ in range(STEPS)]
    contests = [_contest(case, scores) for scores in steps]
    overflow = [_percent((c.counts - c.slots).clamp_min(0).sum()) for c in contests]
    figures = [_figure(f"{case.name}.overflow", overflow, f"published {case.overflow} %")]
    for policy in (OverflowPolicy.DROP, *case.published):
        dropped, ratios = zip(*map(_apply, [policy] * STEPS, contests, steps), strict=True)
        against = f"C {case.capacity_factor}, load CV {case.load_cv}"
        if policy in case.published:
            percent, ratio = case.published[policy]
            against = (
                f"published {percent} % at score {ratio:.2f}; ours at score "
                f"{statistics.median(ratios):.2f}"
            )
        figures.append(_figure(f"{case.name}.{policy.value}.dropped", dropped, against))
    return figures


def _apply(policy: OverflowPolicy, contest: Contest, scores: Tensor) -> tuple[float, float]:
    """Percent dropped, and mean score of replacements over that of what they replace."""
    verdict = POLICIES[policy].decide(contest)
    moved = verdict.rerouted
    replacement = scores.gather(1, verdict.expert_ids)[moved]
    ratio = float(replacement.mean() / contest.chosen[moved].mean()) if moved.any() else 0.0
    return _percent((~verdict.kept).sum()), ratio


def _percent(assignments: Tensor) -> float:
    return 100.0 * float(assignments) / (TOKENS * TOP_K)


def _figure(name: str, values: Sequence[float], against: str) -> Figure:
    return Figure(
        name=f"overflow.{name}", value=statistics.median(values), unit="%", n=len(values),
        low=min(values), high=max(values), against=against,
    )  # fmt: skip


def _popularity(case: Case, random: torch.Generator) -> Tensor:
    """[E], what strength multiplies: Gaussian (log-normal popularity), or 1 on the hot experts."""
    if case.skew is Skew.LOGNORMAL:
        return torch.randn(EXPERTS, generator=random)
    hot = torch.zeros(EXPERTS)
    count = round(HOT_SHARE * EXPERTS)
    together = case.skew is Skew.HOT_TOGETHER
    ids = torch.arange(EXPERTS) if together else torch.randperm(EXPERTS, generator=random)
    hot[ids[:count]] = 1.0
    return hot


def _scores(offset: Tensor, random: torch.Generator) -> Tensor:
    return (torch.randn(TOKENS, EXPERTS, generator=random) + offset).sigmoid()


def _strength(popularity: Tensor, load_cv: float) -> float:
    """By bisection, the factor on `popularity` that gives the load CV on 8 steps together."""
    low, high = 0.0, 6.0
    for _ in range(24):
        middle = (low + high) / 2
        random = torch.Generator().manual_seed(1)
        ids = torch.cat(
            [_scores(popularity * middle, random).topk(TOP_K).indices for _ in range(8)]
        )
        load = torch.bincount(ids.flatten(), minlength=EXPERTS).double()
        reached = float(load.std(correction=0) / load.mean())
        low, high = (middle, high) if reached < load_cv else (low, middle)
    return (low + high) / 2


def _contest(case: Case, scores: Tensor) -> Contest:
    ranked = scores.topk(TOP_K + CANDIDATES).indices
    ids, candidates = ranked[:, :TOP_K], ranked[:, TOP_K:]
    return Contest(
        expert_ids=ids,
        chosen=scores.gather(1, ids),
        candidates=candidates,
        candidate_scores=scores.gather(1, candidates),
        counts=torch.bincount(ids.flatten(), minlength=EXPERTS),
        num_replicas=torch.ones(EXPERTS, dtype=torch.int64),
        slots=slots(
            Fraction(case.capacity_factor), tokens=TOKENS, top_k=TOP_K, num_experts=EXPERTS,
            cap_min=1,
        ),
    )  # fmt: skip
