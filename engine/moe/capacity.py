"""Capacity of an expert in exact arithmetic: cap = max(cap_min, ⌈C·T·k/E⌉). No torch here.

A float product would change it: ⌈1.5000000000000002⌉ is 2 slots where ⌈1.5·1⌉ of an exact 1 is not.
Formula: Switch Transformer's capacity factor on assignments (Megatron's `get_capacity` with top-k).
"""

from collections.abc import Sequence
from fractions import Fraction

from contract.runtime_config import CAPACITY_LADDER

LADDER: tuple[Fraction, ...] = tuple(Fraction(rung) for rung in CAPACITY_LADDER)


def slots(
    capacity_factor: Fraction, *, tokens: int, top_k: int, num_experts: int, cap_min: int
) -> int:
    """Slots of one expert for a step of `tokens` tokens, exact.

    Args:
        capacity_factor: C.
        tokens: T of the capacity domain: of the whole EP group, or of one source rank.
        top_k: k.
        num_experts: E.
        cap_min: slots that an expert has at least.
    """
    numerator = capacity_factor.numerator * tokens * top_k
    denominator = capacity_factor.denominator * num_experts
    return max(cap_min, -(-numerator // denominator))


def ladder_slots(*, tokens: int, top_k: int, num_experts: int, cap_min: int) -> tuple[int, ...]:
    """`slots` at every rung of the ladder."""
    return tuple(
        slots(rung, tokens=tokens, top_k=top_k, num_experts=num_experts, cap_min=cap_min)
        for rung in LADDER
    )


def overflow(counts: Sequence[int], capacity: int) -> int:
    """Assignments beyond capacity before any reroute: Σ_e max(0, n_e - cap)."""
    return sum(max(0, count - capacity) for count in counts)
