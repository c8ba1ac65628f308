"""The latency rules: chunk size and concurrency, direction by cause.

TPOT: smaller chunks when prefill shares the steps, else fewer running sequences (× 0.8, floor 1).
TTFT: larger chunks when TPOT has room; smaller ones when short prompts wait behind long ones; more
concurrency, up to the baseline, when requests wait for a slot. Sources: reference, mechanisms
rows 68 and 69.
"""

import math

from contract.runtime_config import CHUNK_SIZES, RuntimeConfig
from controlplane.policy.candidate import Candidate
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.policy.policy import ChunkRules, Policy
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloName, SloState, SloStatus

_APP_LIMITED = 0.5
"""Below this share of the limit the load sets the concurrency, not the limit."""


def tpot_candidates(
    snapshot: Snapshot, config: RuntimeConfig, policy: Policy, tpot: SloStatus
) -> list[Candidate]:
    """What could mend TPOT, best first."""
    share = snapshot.load.prefill_token_share or 0.0
    told = f"TPOT p99 is {_p99(tpot)} (limit {_ms(tpot.threshold)})"
    chunk = _chunk(
        config, config.chunk_size // 2, policy.chunk, Reason.TPOT_BREACH, SloName.TPOT,
        f"{told} and {share:.0%} of the tokens are prefill, which delays decode in the same step.",
        "less prefill in a step: TPOT down, TTFT of long prompts up",
    )  # fmt: skip
    fewer = _fewer(snapshot, config, policy, told)
    return [chunk, fewer] if share >= policy.chunk.prefill_share else [fewer, chunk]


def ttft_candidates(
    snapshot: Snapshot, config: RuntimeConfig, policy: Policy, ttft: SloStatus, tpot: SloStatus
) -> list[Candidate]:
    """What could mend TTFT, best first; the direction follows from the cause."""
    rules, load = policy.chunk, snapshot.load
    told = f"TTFT p99 is {_p99(ttft)} (limit {_ms(ttft.threshold)})"
    found: list[Candidate] = []
    more = _more(snapshot, config, policy, told, tpot)
    if more is not None:
        found.append(more)
    room = tpot.room_ratio
    has_room = tpot.state is SloState.MET and room is not None and room >= rules.tpot_room_ratio
    if has_room and room is not None:
        found.append(
            _chunk(
                config, config.chunk_size * 2, rules, Reason.TTFT_BREACH, SloName.TTFT,
                f"{told} and TPOT has {room:.0%} room: larger chunks finish prompts in fewer "
                "steps.",
                "prompts prefill in fewer steps: TTFT down, TPOT up",
            )
        )  # fmt: skip
    elif (
        not _overflows(snapshot)
        and (load.queue_share_of_ttft or 0.0) > rules.queue_share
        and ((load.prefill_token_share or 0.0) >= rules.prefill_share)
    ):
        found.append(
            _chunk(
                config, config.chunk_size // 2, rules, Reason.TTFT_BREACH, SloName.TTFT,
                f"{told}, {load.queue_share_of_ttft or 0.0:.0%} of it in queue behind long "
                "prompts, and TPOT has no room.",
                "short prompts wait for shorter steps: their TTFT down, that of long prompts up",
            )
        )  # fmt: skip
    return found


def restore_chunk(snapshot: Snapshot, config: RuntimeConfig) -> Candidate | None:
    """One power of two back to the baseline, or None when it is there."""
    baseline = snapshot.baseline.get(Knob.CHUNK_SIZE)
    current = config.chunk_size
    if not isinstance(baseline, int) or baseline == current:
        return None
    target = current * 2 if current < baseline else current // 2
    blocked = None if target in CHUNK_SIZES and target >= config.max_concurrency else Reason.GUARD
    return _relax(
        Knob.CHUNK_SIZE, current, target, baseline,
        blocked=blocked, predicted="all SLOs have been calm",
    )  # fmt: skip


def restore_concurrency(
    snapshot: Snapshot, config: RuntimeConfig, policy: Policy
) -> Candidate | None:
    """A share of the baseline back towards it, or None when it is there."""
    baseline = snapshot.baseline.get(Knob.MAX_CONCURRENCY)
    current = config.max_concurrency
    if not isinstance(baseline, int) or baseline == current:
        return None
    step = max(1, math.ceil(policy.concurrency.relax_ratio * baseline))
    target = min(baseline, current + step) if current < baseline else max(baseline, current - step)
    blocked = None if target <= config.chunk_size else Reason.GUARD
    return _relax(
        Knob.MAX_CONCURRENCY, current, target, baseline,
        blocked=blocked, predicted="all SLOs have been calm",
    )  # fmt: skip


def _fewer(snapshot: Snapshot, config: RuntimeConfig, policy: Policy, told: str) -> Candidate:
    rules, current = policy.concurrency, config.max_concurrency
    target, running = math.floor(current * rules.factor), snapshot.load.running or 0
    if 0 < running < target:
        target = math.floor(running * rules.factor)  # a limit that nobody reaches mends nothing
    target = max(rules.floor, target)
    if target >= current:
        blocked: Reason | None = Reason.AT_BOUND
        explanation = f"{told}; concurrency {current} is at its floor of {rules.floor}."
    elif 0 < running <= target or 0 < running < current * _APP_LIMITED:
        blocked = Reason.KNOB_INERT
        explanation = (
            f"{told} with {running} of {current} sequences running: the limit is not what makes "
            "it slow, and cutting below what runs would starve the service."
        )
    else:
        blocked = None
        explanation = (
            f"{told}: {target} running sequences at most instead of {current} ({running} run now); "
            "what does not fit queues, and is answered by 429 once the queue is full."
        )
    return Candidate(
        knob=Knob.MAX_CONCURRENCY, current=current, target=target, direction=-1,
        reason=Reason.TPOT_BREACH, target_slo=SloName.TPOT, blocked=blocked,
        explanation=explanation,
        predicted="fewer sequences a step: TPOT down, queueing up, overflow up a little",
    )  # fmt: skip


def _more(
    snapshot: Snapshot, config: RuntimeConfig, policy: Policy, told: str, tpot: SloStatus
) -> Candidate | None:
    """Back towards the baseline when requests wait for a slot and TPOT has room."""
    load, current = snapshot.load, config.max_concurrency
    baseline = snapshot.baseline.get(Knob.MAX_CONCURRENCY)
    waits = (load.queued or 0) > 0 or (load.queue_share_of_ttft or 0.0) > policy.chunk.queue_share
    room = tpot.room_ratio if tpot.state is SloState.MET else None
    if (
        not waits or not isinstance(baseline, int) or current >= baseline
        or room is None or room < policy.chunk.tpot_room_ratio
    ):  # fmt: skip
        return None
    target = min(baseline, config.chunk_size, math.ceil(current / policy.concurrency.factor))
    return Candidate(
        knob=Knob.MAX_CONCURRENCY, current=current, target=target, direction=1,
        reason=Reason.TTFT_BREACH, target_slo=SloName.TTFT,
        blocked=Reason.AT_BOUND if target <= current else None,
        explanation=(
            f"{told}; requests wait for one of {current} slots while TPOT has "
            f"{room:.0%} room: {target} slots."
        ),
        predicted="less queueing: TTFT down, TPOT up",
    )  # fmt: skip


def _chunk(
    config: RuntimeConfig, target: int, rules: ChunkRules, reason: Reason, slo: SloName, told: str,
    predicted: str,
) -> Candidate:  # fmt: skip
    current = config.chunk_size
    inside = rules.minimum <= target <= rules.maximum and target >= config.max_concurrency
    bound = (
        f"{rules.minimum} to {rules.maximum}, and at least the concurrency {config.max_concurrency}"
    )
    return Candidate(
        knob=Knob.CHUNK_SIZE, current=current, target=target,
        direction=1 if target > current else -1, reason=reason, target_slo=slo,
        blocked=None if inside else Reason.AT_BOUND,
        explanation=told + (
            f" Chunk size {current} becomes {target}." if inside
            else f" Chunk size {target} is outside its bounds ({bound})."
        ),
        predicted=predicted,
    )  # fmt: skip


def _relax(
    knob: Knob, current: int, target: int, baseline: int, *, blocked: Reason | None, predicted: str
) -> Candidate:
    return Candidate(
        knob=knob, current=current, target=target, direction=1 if target > current else -1,
        reason=Reason.RELAX, relax=True, blocked=blocked, predicted=predicted,
        explanation=f"Calm: {knob} {current} becomes {target}, on its way to {baseline}.",
    )  # fmt: skip


def _p99(status: SloStatus) -> str:
    return f"{'more than ' if status.value_is_more else ''}{_ms(status.value)}"


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.0f} ms"


def _overflows(snapshot: Snapshot) -> bool:
    """Smaller chunks make smaller steps, and those overflow more."""
    return any(
        slo.slo is SloName.OVERFLOW and slo.state is SloState.BREACHED for slo in snapshot.slos
    )
