"""Overflow policies, one file each; `POLICIES` is the whole list."""

from contract.runtime_config import OverflowPolicy
from engine.errors import RefusedError
from engine.moe.overflow.base import Contest, Policy, Verdict
from engine.moe.overflow.drop import Drop
from engine.moe.overflow.drop_by_position import DropByPosition
from engine.moe.overflow.reroute_id_adjacent import RerouteIdAdjacent
from engine.moe.overflow.reroute_least_loaded import RerouteLeastLoaded
from engine.moe.overflow.reroute_next_best import RerouteNextBest
from engine.moe.overflow.spill import Spill

__all__ = ["POLICIES", "Contest", "Policy", "Verdict", "check_policy"]

POLICIES: dict[OverflowPolicy, Policy] = {
    OverflowPolicy.DROP: Drop(),
    OverflowPolicy.DROP_BY_POSITION: DropByPosition(),
    OverflowPolicy.REROUTE_NEXT_BEST: RerouteNextBest(),
    OverflowPolicy.REROUTE_LEAST_LOADED: RerouteLeastLoaded(),
    OverflowPolicy.SPILL: Spill(),
    OverflowPolicy.REROUTE_ID_ADJACENT: RerouteIdAdjacent(),
}


def check_policy(policy: OverflowPolicy, *, has_replicas: bool) -> None:
    """Refuse `spill` on a placement without replicas: there is nowhere to spill to.

    Raises:
        RefusedError: with the remedy.
    """
    if policy is OverflowPolicy.SPILL and not has_replicas:
        raise RefusedError(
            "overflow_policy spill needs a placement with replicated experts; this one has a "
            "single copy of each",
            field="overflow_policy", value=policy.value, bound="a placement with replicas",
        )  # fmt: skip
