"""Routing counts of one tick: assignments, overflow, what-if and request buckets, all integers."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from contract.frame import NUM_BUCKETS
from contract.runtime_config import CAPACITY_LADDER, OverflowMode, OverflowPolicy
from engine.moe.capacity import slots as capacity_slots
from engine.simulation.load import StepLoad
from engine.simulation.routing.draws import fit, scatter, split, whole
from engine.simulation.routing.popularity import SEQUENCE_CV
from engine.simulation.serving.serve import StepKind
from engine.simulation.state import Governed

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Arrays = dict[str, Counts]

WHATIF_EVERY = 16
REROUTED_SHARE = {
    OverflowPolicy.DROP: 0.0, OverflowPolicy.DROP_BY_POSITION: 0.0,
    OverflowPolicy.REROUTE_NEXT_BEST: 0.98, OverflowPolicy.REROUTE_LEAST_LOADED: 1.0,
    OverflowPolicy.REROUTE_ID_ADJACENT: 0.5, OverflowPolicy.SPILL: 0.0,
}  # fmt: skip
"""Share of the overflow that finds another expert; of mechanisms § 4.5 at moderate skew."""
LOST_MASS = 0.7
"""Gate weight of a dropped assignment over the mean one: the lowest scores go first. Assumed."""


@dataclass
class Buckets:
    """Request-hash buckets: each routes a little differently, since few sequences fill it.

    Attributes:
        deviation: [B, L, E], relative deviation of a bucket's selection, renewed every period.
        mean: [L, E], over buckets.
    """

    deviation: npt.NDArray[np.float32]
    mean: Floats

    @classmethod
    def fresh(cls, layers: int, experts: int) -> "Buckets":
        """No deviation yet; `renew` brings it."""
        shape = (NUM_BUCKETS, layers, experts)
        return cls(np.zeros(shape, np.float32), np.zeros((layers, experts)))

    def renew(self, generator: np.random.Generator, sequences: float, keep: float) -> None:
        """Next period: a part `keep` of the sequences is still there, the rest is new."""
        scale = SEQUENCE_CV / np.sqrt(max(1.0, sequences / NUM_BUCKETS))
        fresh = generator.standard_normal(self.deviation.shape, dtype=np.float32)
        self.deviation *= np.float32(keep)
        self.deviation += fresh * np.float32(scale * np.sqrt(1.0 - keep * keep))
        np.clip(self.deviation, -0.9, 3.0, out=self.deviation)
        self.mean = self.deviation.mean(axis=0, dtype=np.float64)


@dataclass
class Period:
    """Sums since the bucket arrays were last sent."""

    seconds: float = 0.0
    assignments: Counts | None = None
    live: Counts | None = None
    lkg: Counts | None = None

    def add(self, assignments: Counts, live: Counts | None, lkg: Counts | None) -> None:
        """One tick's [L, E]."""
        self.assignments = _plus(self.assignments, assignments)
        if live is not None and lkg is not None:
            self.live, self.lkg = _plus(self.live, live), _plus(self.lkg, lkg)


def _plus(total: Counts | None, more: Counts) -> Counts:
    return more if total is None else total + more


@dataclass
class Counted:
    """Routing arrays of a tick, and the sums that its header needs."""

    arrays: Arrays = field(default_factory=dict)
    sampled_steps: int = 0
    sampled_tokens: int = 0
    gate_mass_kept: float = 0.0
    gate_mass_total: float = 0.0
    required_factor: float = 0.0


def assignments(
    generator: np.random.Generator, selection: Floats, tokens: tuple[int, int], top_k: int
) -> Counts:
    """[P, L, E] of a tick; every row sums to T·k."""
    experts = selection.shape[1]
    shrink = (experts - top_k) / max(1, experts - 1)
    rows = []
    for count in tokens:
        if count == 0:
            rows.append(np.zeros(selection.shape, np.int64))
            continue
        expected = count * selection
        drawn = scatter(generator, expected, shrink=shrink)
        rows.append(fit(drawn, expected, np.full(len(selection), float(count * top_k))))
    return np.stack(rows)


def overflow(
    counted: Counted, kinds: list[tuple[int, StepKind, StepLoad]], governed: Governed, top_k: int
) -> None:
    """Overflow at every rung, its outcomes, and what experts and ranks computed."""
    arrays = counted.arrays
    routed = arrays["assignments"].sum(axis=0)
    totals = routed.sum(axis=1)
    rate = np.zeros((len(CAPACITY_LADDER), len(routed)))
    slots, required = np.zeros(len(routed)), np.zeros(len(routed))
    ranks = np.zeros((len(routed), governed.placement.ranks))
    spent = 0.0
    for steps, kind, load in kinds:
        assigned = steps * kind.tokens * top_k
        spent += assigned
        rate += load.at_rung / (load.tokens * top_k) * assigned
        ranks += load.ranks * (steps * kind.tokens / load.tokens)
        if load.rung is not None:
            slots += (
                steps
                * routed.shape[1]
                * capacity_slots(
                    Fraction(CAPACITY_LADDER[load.rung]),
                    tokens=round(kind.tokens),
                    top_k=top_k,
                    num_experts=routed.shape[1],
                    cap_min=governed.config.cap_min,
                )
            )
        required = np.maximum(required, load.required)
        counted.required_factor = max(counted.required_factor, load.required_factor)
    share = rate / max(spent, 1.0)
    at_rung = np.minimum(np.rint(share * totals).astype(np.int64), totals)
    rung = None if governed.config.capacity_factor is None else CAPACITY_LADDER.index(
        governed.config.capacity_factor
    )  # fmt: skip
    over = np.zeros_like(totals) if rung is None else at_rung[rung]
    arrays |= {
        "overflow_at_rung": at_rung, "overflow": over,
        "capacity_slots": np.rint(slots).astype(np.int64),
        "required_max": np.ceil(required).astype(np.int64),
    }  # fmt: skip
    _outcomes(counted, governed, over, totals, ranks)


def _outcomes(
    counted: Counted, governed: Governed, over: Counts, totals: Counts, ranks: Floats
) -> None:
    enforced = governed.config.overflow_mode is OverflowMode.ENFORCED
    policy = governed.config.overflow_policy
    none = np.zeros_like(over)
    rerouted = np.rint(over * REROUTED_SHARE[policy]).astype(np.int64) if enforced else none
    spills = enforced and policy is OverflowPolicy.SPILL and governed.placement.has_replicas
    spilled = over if spills else none
    dropped = over - rerouted - spilled if enforced else none
    executed = totals - dropped
    level = ranks / np.maximum(ranks.sum(axis=1, keepdims=True), 1e-9)
    counted.arrays |= {
        "rerouted": rerouted, "spilled": spilled, "dropped": dropped, "executed": executed,
        "card_assignments": whole(level * executed[:, None], executed),
        "tokens_all_dropped": none,
    }  # fmt: skip
    mass = float(totals.sum())
    counted.gate_mass_total = mass
    counted.gate_mass_kept = mass - LOST_MASS * float(dropped.sum())


def what_if(
    generator: np.random.Generator, counted: Counted, live: Floats, lkg: Floats, *,
    tokens: int, steps: int, top_k: int,
) -> None:  # fmt: skip
    """The same sampled tokens under the live bias and the last known good: shared luck."""
    counted.sampled_steps = steps // WHATIF_EVERY
    sampled = tokens // WHATIF_EVERY
    counted.sampled_tokens = sampled
    luck = generator.standard_normal(live.shape, dtype=np.float32)
    totals = np.full(len(live), float(sampled * top_k))
    for name, selection in (("whatif_live", live), ("whatif_lkg", lkg)):
        expected = sampled * selection
        counted.arrays[name] = fit(scatter(generator, expected, noise=luck), expected, totals)


def bucket_arrays(generator: np.random.Generator, period: Period, buckets: Buckets) -> Arrays:
    """[B, L, E] arrays whose sums over buckets are exactly those of the period's frames."""
    found: Arrays = {}
    if period.assignments is None:
        return found
    level = (1.0 + buckets.deviation) / np.float32(NUM_BUCKETS)
    found["bucket_assignments"] = _split(generator, level, period.assignments)
    if period.live is None or period.lkg is None:
        return found
    luck = generator.standard_normal(level.shape, dtype=np.float32)
    for name, counts in (("bucket_whatif_live", period.live), ("bucket_whatif_lkg", period.lkg)):
        found[name] = _split(generator, level, counts, luck)
    return found


def _split(
    generator: np.random.Generator,
    level: npt.NDArray[np.float32],
    counts: Counts,
    noise: npt.NDArray[np.float32] | None = None,
) -> Counts:
    """[L, E] over buckets of a relative level [B, L, E]; 32 bits are enough for their noise."""
    return split(generator, level * counts.astype(np.float32), counts, noise=noise)
