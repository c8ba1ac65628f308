"""The source article's `adaptive_routing`, as written: first match wins, and no way back.

Kept for comparison only. Values stand in for its units: overflow ratio, p99 seconds.
"""

import math

from contract.runtime_config import RuntimeConfig
from controlplane.policy.candidate import Candidate, Value
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloName

OVERFLOW_LIMIT = 0.05
TTFT_LIMIT_SECONDS = 0.2
TPOT_LIMIT_SECONDS = 0.05
CAPACITY = "2"
CHUNK = 256
FACTOR = 0.8


def literal_candidates(snapshot: Snapshot, config: RuntimeConfig) -> list[Candidate]:
    """The one wish of the article's if/elif chain, or none."""
    value = {slo.slo: slo.value or 0.0 for slo in snapshot.slos}
    if value.get(SloName.OVERFLOW, 0.0) > OVERFLOW_LIMIT:
        return [_wish(Knob.CAPACITY_FACTOR, config.capacity_factor, CAPACITY, 1, SloName.OVERFLOW)]
    if value.get(SloName.TTFT, 0.0) > TTFT_LIMIT_SECONDS:
        least = config.max_concurrency
        bound = "" if least <= CHUNK else f": {CHUNK} would be under the concurrency {least}"
        wish = _wish(Knob.CHUNK_SIZE, config.chunk_size, CHUNK, -1, SloName.TTFT, bound=bound)
        return [wish]
    if value.get(SloName.TPOT, 0.0) > TPOT_LIMIT_SECONDS:
        target = max(1, math.floor(config.max_concurrency * FACTOR))
        return [_wish(Knob.MAX_CONCURRENCY, config.max_concurrency, target, -1, SloName.TPOT)]
    return []


def _wish(
    knob: Knob, current: Value, target: Value, direction: int, slo: SloName, *, bound: str = ""
) -> Candidate:
    blocked = Reason.AT_BOUND if bound or current == target else None
    return Candidate(
        knob=knob, current=current, target=target, direction=direction, target_slo=slo,
        reason=Reason.LITERAL_RULE, blocked=blocked, predicted="the article does not say",
        explanation=(
            f"The article's rule: {slo} is over its limit, so {knob} becomes {target}."
            if blocked is None
            else f"The article's rule has nothing left: {knob} is {current}{bound}."
        ),
    )  # fmt: skip
